// Package terminationmessage makes the termination message of a container from the file that it
// wrote, or from the end of its log (core/v1 Container terminationMessagePath and
// terminationMessagePolicy).
package terminationmessage

import (
	"bytes"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Limits of a message.
const (
	// MaxFile is how many bytes of the file count: the last ones.
	MaxFile = 4 << 10
	// MaxLog and MaxLines are how many bytes and lines of the log count.
	MaxLog   = 2 << 10
	MaxLines = 80
	// ReadLog is how many bytes at the end of a log must be read for that. Each line has a time and a
	// stream before its text.
	ReadLog = 64 << 10
)

// FromLog says whether the log replaces an empty file.
func FromLog(policy v1.TerminationMessagePolicy, c *observed.Container) bool {
	return policy == v1.TerminationMessageFallbackToLogsOnError && c.ExitCode != 0 && c.Reason != "ContainerCannotRun" &&
		c.Reason != "StartError"
}

// Message joins the runtime's message and the container's.
func Message(runtime, said string) string {
	said = strings.ToValidUTF8(said, "\uFFFD")
	if runtime == "" || said == "" {
		return runtime + said
	}
	return runtime + ": " + said
}

// Tail is the end of a container's output. data is the end of its log in the CRI's format: <time>
// <stdout|stderr> <P|F> <text>. whole: data is the whole log.
func Tail(data []byte, whole bool) string {
	if !whole {
		// The first line is incomplete.
		if _, rest, ok := bytes.Cut(data, []byte("\n")); ok {
			data = rest
		}
	}
	var out []byte
	for line := range bytes.Lines(data) {
		text, full, ok := text(bytes.TrimSuffix(line, []byte("\n")))
		if !ok {
			continue
		}
		out = append(out, text...)
		if full {
			out = append(out, '\n')
		}
	}
	out = lastLines(out, MaxLines)
	if len(out) > MaxLog {
		out = out[len(out)-MaxLog:]
	}
	return string(out)
}

// text is the text of one line; full says that the line of output ended there.
func text(line []byte) (text []byte, full, ok bool) {
	_, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return nil, false, false
	}
	stream, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok || string(stream) != "stdout" && string(stream) != "stderr" {
		return nil, false, false
	}
	tags, text, _ := bytes.Cut(rest, []byte(" "))
	first, _, _ := bytes.Cut(tags, []byte(":"))
	return text, string(first) != "P", true
}

func lastLines(b []byte, n int) []byte {
	end := len(b)
	if end > 0 && b[end-1] == '\n' {
		end--
	}
	for ; n > 0; n-- {
		i := bytes.LastIndexByte(b[:end], '\n')
		if i < 0 {
			return b
		}
		end = i
	}
	return b[end+1:]
}
