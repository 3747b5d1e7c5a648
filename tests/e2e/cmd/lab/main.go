// Command lab starts a private containerd with a local image registry, or a control plane for tests, and keeps it
// running, for work by hand and for programs that want a runtime to talk to. See [lab] for what it starts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

const usage = `lab runs a private containerd; other containerds on this machine are not touched.

  lab containerd [--version 1.6|2] [--dir DIR] [--keep]
      Starts containerd, and a registry that serves the demo images. Prints one line of JSON as
      soon as both are ready:
        {"endpoint":"unix:///…/containerd.sock","socket":"…","registry":"127.0.0.1:…","pid":…,
         "dir":"…","cgroupRoot":"/lab-…","release":"2","events":true,"images":["…"]}
      and stays until SIGINT or SIGTERM. Then it removes every pod and all it made on the host but
      containerd.log, or with --keep only stops containerd, and the pods go on.
      Needs root, runc, iptables and CNI plugins (Debian: containernetworking-plugins); --version
      1.6 also Debian's containerd; --version 2 builds containerd from its Go module the first
      time. Two labs need two directories. Default: --version 2 --dir .run/lab-<version>

  lab clean [--version 1.6|2] [--dir DIR]
      Removes what a lab left behind in DIR after --keep or a kill -9.

  lab plane
      What go tool task lab runs: builds what tests use, starts a control plane, says in
      .run/lab/plane.json how to reach it, and lends it to the tests of a cluster that are run
      in this checkout, until SIGINT or SIGTERM.

  lab build
      Builds containerd 2.x into .run/bin, unless it is there, and prints the directory.

From a checkout:  go -C tests/e2e run ./cmd/lab containerd --version 2 --dir $PWD/.run/mylab
With crictl:      crictl --runtime-endpoint unix://$PWD/.run/mylab/containerd.sock pods
With ctr:         ctr --address $PWD/.run/mylab/containerd.sock -n k8s.io containers ls
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	defer check.Return(&err)
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		fmt.Print(usage)
		return nil
	}
	flags := flag.NewFlagSet("lab "+args[0], flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	version := flags.String("version", "2", "")
	dir := flags.String("dir", "", "")
	keep := flags.Bool("keep", false, "")
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	release := check.Must(lab.ParseRelease(*version))
	repository := check.Must(lab.Repository())
	config := lab.Config{Dir: *dir, Release: release, Repository: repository, NodeNetwork: true, Log: os.Stderr}
	if config.Dir == "" {
		config.Dir = fmt.Sprintf("%s/.run/lab-%s", repository, release)
	}
	switch args[0] {
	case "build":
		bin, err := lab.BuildContainerd(ctx, repository, os.Stderr)
		fmt.Println(bin)
		return err
	case "clean":
		l := check.Must(lab.New(ctx, config))
		return l.Cleanup(ctx)
	case "containerd":
		return serve(ctx, config, *keep)
	case "plane":
		return plane(ctx, repository)
	}
	return fmt.Errorf("unknown command %q; see lab --help", args[0])
}

// serve runs a lab until ctx ends.
func serve(ctx context.Context, config lab.Config, keep bool) error {
	l, err := lab.New(ctx, config)
	if err != nil {
		return err
	}
	if err := l.Start(ctx); err != nil {
		return errors.Join(err, end(l, keep))
	}
	line, err := json.Marshal(map[string]any{
		"endpoint": l.Endpoint(), "socket": l.SocketPath(), "registry": l.Registry().Address(),
		"pid": l.PID(), "dir": l.Dir(), "cgroupRoot": l.CgroupRoot(),
		"release": l.Release(), "events": l.Release().HasEvents(), "images": l.Registry().Images(),
	})
	if err != nil {
		return errors.Join(err, end(l, keep))
	}
	fmt.Println(string(line))
	select {
	case <-ctx.Done():
	case <-l.Exited():
		err = fmt.Errorf("containerd exited; see %s", l.LogPath())
	}
	return errors.Join(err, end(l, keep))
}

func end(l *lab.Lab, keep bool) error {
	if keep {
		return l.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return l.Cleanup(ctx)
}
