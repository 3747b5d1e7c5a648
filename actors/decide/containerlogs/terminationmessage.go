package containerlogs

import (
	"bytes"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Limits of a message.
const (
	// MaxMessageFile is how many bytes of the file count: the last ones.
	MaxMessageFile = 4 << 10
	// MaxMessageLog and MaxMessageLines are how many bytes and lines of the log count.
	MaxMessageLog   = 2 << 10
	MaxMessageLines = 80
	// ReadMessageLog is how many bytes at the end of a log must be read for that. Each line has a time and a
	// stream before its text.
	ReadMessageLog = 64 << 10
)

// MessageFromLog says whether the log replaces an empty file.
func MessageFromLog(policy v1.TerminationMessagePolicy, c *observed.Container) bool {
	return policy == v1.TerminationMessageFallbackToLogsOnError && c.ExitCode != 0 && c.Reason != "ContainerCannotRun" &&
		c.Reason != "StartError"
}

// TerminationMessage joins the runtime's message and the container's.
func TerminationMessage(runtime, said string) string {
	said = strings.ToValidUTF8(said, "\uFFFD")
	if runtime == "" || said == "" {
		return runtime + said
	}
	return runtime + ": " + said
}

// LogTail is the end of a container's output. data is the end of its log in the CRI's format: <time>
// <stdout|stderr> <P|F> <text>. whole: data is the whole log.
func LogTail(data []byte, whole bool) string {
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
	out = lastLines(out, MaxMessageLines)
	if len(out) > MaxMessageLog {
		out = out[len(out)-MaxMessageLog:]
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
