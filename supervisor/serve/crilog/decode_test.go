package crilog

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// decoded is a log as text, fed in pieces of a size.
func decoded(log string, size int) string {
	var out strings.Builder
	d := decoder{
		begin: func(r record) bool { return true },
		text:  func(b []byte) error { out.Write(b); return nil },
		end:   func() error { out.WriteByte('\n'); return nil },
	}
	for len(log) > 0 {
		n := min(size, len(log))
		if err := d.feed([]byte(log[:n])); err != nil {
			panic(err)
		}
		log = log[n:]
	}
	return out.String()
}

// plain decodes entry by entry, as one reads the format's description.
func plain(log string) string {
	var out strings.Builder
	for line := range strings.Lines(log) {
		text, ended := strings.CutSuffix(line, "\n")
		at, rest, ok := strings.Cut(text, " ")
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil || !ok {
			continue
		}
		stream, rest, ok := strings.Cut(rest, " ")
		if stream != "stdout" && stream != "stderr" || !ok {
			continue
		}
		tags, body, ok := strings.Cut(rest, " ")
		if !ok || len(text)-len(body) > headLimit {
			continue
		}
		out.WriteString(body)
		if tag, _, _ := strings.Cut(tags, ":"); ended && tag != "P" {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

func FuzzDecode(f *testing.F) {
	f.Add(entry(0, "stdout", "F", "a")+entry(1, "stderr", "P", "b")+entry(2, "stderr", "F:z", "c"), 7)
	f.Add("2026-11-21T10:00:00Z stdout F\n\n no\n2026-11-21T10:00:00Z stdin F x\n"+strings.Repeat("long", 99)+"\n", 1)
	f.Add(entry(0, "stdout", strings.Repeat("F", 200), "a")+"2026-11-21T10:00:00Z stdout P  text \x00\xff\r", 300)
	f.Fuzz(func(t *testing.T, log string, size int) {
		if size < 1 {
			size = 1
		}
		check.Equal(t, decoded(log, size), plain(log), "%q in pieces of %d:\ngot", log, size)
	})
}
