package containerlogs

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestTail(t *testing.T) {
	line := func(stream, tag, text string) string {
		return "2026-01-01T00:00:00.000000001Z " + stream + " " + tag + " " + text + "\n"
	}
	var many, wantMany strings.Builder
	for i := range 100 {
		many.WriteString(line("stdout", "F", fmt.Sprintf("line %d", i)))
		if i >= 20 {
			fmt.Fprintf(&wantMany, "line %d\n", i)
		}
	}
	for _, c := range []struct {
		name, log string
		part      bool
		want      string
	}{
		{"empty", "", false, ""},
		{"both streams", line("stdout", "F", "a") + line("stderr", "F", "b c"), false, "a\nb c\n"},
		{"in parts", line("stdout", "P", "a") + line("stdout", "P", "b") + line("stdout", "F", "c"), false, "abc\n"},
		{"an empty line", line("stdout", "F", "") + line("stdout", "F", "x"), false, "\nx\n"},
		{"tags", line("stdout", "P:x", "a") + line("stdout", "F:y", "b"), false, "ab\n"},
		{"the last line is being written", line("stdout", "F", "a") + "2026 stdout F b", false, "a\nb\n"},
		{"not a log", "hello\nworld of words\n", false, ""},
		{"the begin is cut off", "01Z stdout F lost\n" + line("stdout", "F", "kept"), true, "kept\n"},
		{"80 lines", many.String(), false, wantMany.String()},
		{"2 KiB", line("stdout", "F", strings.Repeat("x", 5000)), false, strings.Repeat("x", MaxMessageLog-1) + "\n"},
	} {
		check.Equal(t, LogTail([]byte(c.log), !c.part), c.want, "%s", c.name)
	}
	rapid.Check(t, func(t *rapid.T) {
		got := LogTail(rapid.SliceOf(rapid.Byte()).Draw(t, "log"), rapid.Bool().Draw(t, "whole"))
		if len(got) > MaxMessageLog || strings.Count(got, "\n") > MaxMessageLines {
			t.Fatalf("%d bytes, %d lines", len(got), strings.Count(got, "\n"))
		}
	})
}

func TestMessage(t *testing.T) {
	for _, c := range [][3]string{
		{"", "", ""}, {"", "bye", "bye"}, {"killed", "", "killed"}, {"killed", "bye", "killed: bye"}, {"", "a\xffb", "a\uFFFDb"},
	} {
		if got := TerminationMessage(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestFromLog(t *testing.T) {
	for _, c := range []struct {
		policy v1.TerminationMessagePolicy
		code   int32
		reason string
		want   bool
	}{
		{v1.TerminationMessageFallbackToLogsOnError, 1, "Error", true},
		{v1.TerminationMessageFallbackToLogsOnError, 0, "Completed", false},
		{v1.TerminationMessageFallbackToLogsOnError, 128, "StartError", false},
		{v1.TerminationMessageReadFile, 1, "Error", false},
		{"", 1, "Error", false},
	} {
		check.Equal(t, MessageFromLog(c.policy, &observed.Container{ExitCode: c.code, Reason: c.reason}), c.want, "%+v", c)
	}
}
