// Command work does one small thing after another, as its arguments say, so that a test can write
// a container's behaviour into the pod's manifest. Steps are separated by "then":
//
//	work touch /data/ready then trap 2s then exit 3
//
// A step that fails ends the program with 1. SIGTERM ends it with 143, as in a shell, unless the
// step under way says otherwise.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

const usage = `usage: work STEP [then STEP]...
  sleep [D]           D such as 2s; for ever without it
  exit N              end with code N
  trap [D]            wait for SIGTERM, go on D later
  ignore              never end by SIGTERM
  print TEXT...       a line on stdout
  warn TEXT...        a line on stderr
  lines N             N numbered lines on stdout
  touch FILE          make FILE if it is not there
  write FILE TEXT...  FILE becomes TEXT and a newline
  append FILE TEXT... TEXT and a newline go to the end of FILE
  tick FILE D TEXT... TEXT and a newline go to the end of FILE every D, for ever
  cat FILE...         print files
  unproject FILE      take FILE out of its project (quota); fail if the kernel lets it
  remove FILE...      remove files, no matter whether they are there
  await FILE          wait until FILE is there
  turns FILE N        count runs in FILE; fail before the Nth
  env [NAME]...       print the environment, or these of it
  id                  print uid, gid, groups, hostname and working directory
  mounts              print the mount table
  see                 print all that a container finds around it, as JSON
  serve [HOST:]PORT   answer HTTP: /ok is 200, nothing else is
  get HOST:PORT PATH  print what a web server answers
  echo                give stdin back on stdout
  screen              print the terminal's size, again when it changes; a line on stdin ends it
  listen [HOST:]PORT  give back what each TCP connection sends
  pour PORT BYTES     give each TCP connection so many bytes, always the same ones
  hog memory MIB [R]  take memory, R MiB per second if given, and hold it
  hog cpu D           burn one CPU for D
  fill FILE R [MIB]   write to FILE R MiB per second, until it has MIB if given, and hold it
  flood R             print R MiB of lines per second, for ever
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGINT)
	steps := split(os.Args[1:], "then")
	for i, step := range steps {
		if err := run(step, terminated); err != nil {
			fmt.Fprintf(os.Stderr, "work %s: %v\n", step, err)
			os.Exit(1)
		}
		if i+1 < len(steps) && slices.Contains([]string{"trap", "ignore"}, steps[i+1][0]) {
			continue // the next step says what a SIGTERM does that has come already
		}
		select {
		case <-terminated:
			os.Exit(143)
		default:
		}
	}
}

// split cuts args at every separator. Empty parts vanish.
func split(args []string, separator string) [][]string {
	var parts [][]string
	var part []string
	for _, a := range append(args, separator) {
		if a != separator {
			part = append(part, a)
			continue
		}
		if len(part) > 0 {
			parts = append(parts, part)
		}
		part = nil
	}
	return parts
}
