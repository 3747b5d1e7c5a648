package screen

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLine(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{" a\n\tb  c ", 0, "a b c"},
		{"\x1b[2J\x00é\xff", 0, "?[2J?é?"},
		{"äöüß", 3, "äö…"},
		{"äöü", 3, "äöü"},
	} {
		check.Equal(t, Line(c.in, c.limit), c.want, "%q", c.in)
	}
}

func TestTable(t *testing.T) {
	table := Table{Header: []string{"A", "B", "C"}}
	table.Add([]string{"äää", "b", ""})
	table.Add([]string{"a"})
	check.Same(t, table.Lines(), []string{"A     B   C", "äää   b", "a"}, "got")
}

func TestFit(t *testing.T) {
	text := "one\ntwo\n" + Red("three is long", true) + "\nfour\n"
	if got := fit(text, 5, 0); got[2] != "\x1b[31mthree\x1b[0m" || len(got) != 4 {
		t.Errorf("got %q", got)
	}
	check.Same(t, fit(text, 0, 4), []string{"one", "two", "… and 2 lines more"}, "got")
	for _, line := range fit(strings.Repeat("ä", 100), 7, 3) {
		check.Equal(t, utf8.RuneCountInString(line), 7, "got %q", line)
	}
}

// script is what an agent answers, one after the other; then ctx ends.
type script struct {
	answers []any // string or error
	cancel  context.CancelFunc
}

func (s *script) ask(ctx context.Context) (string, error) {
	if len(s.answers) == 0 {
		s.cancel()
		return "", ctx.Err()
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	if err, ok := a.(error); ok {
		return "", err
	}
	return a.(string), nil
}

func watch(t *testing.T, terminal Terminal, w io.Writer, answers ...any) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &script{answers: answers, cancel: cancel}
	ticks := make(chan time.Time)
	go func() {
		for {
			select {
			case ticks <- time.Time{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	last := ""
	return Watch[string]{
		Ask: s.ask, Ticks: ticks, Now: func() time.Time { at = at.Add(time.Second); return at },
		Draw: func(v string) string { return v + "\n" },
		Lines: func(v string) []string {
			if v == last {
				return nil
			}
			last = v
			return []string{v}
		},
	}.Run(ctx, w, terminal)
}

func TestWatchOfAPipe(t *testing.T) {
	var b bytes.Buffer
	gone := errors.New("no troupe\nnode answers")
	check.Fatal(t, watch(t, Terminal{}, &b, gone, "a", "a", gone, gone, "a", "b"))
	want := `no troupe node answers
trying again every 1s
the node answers again, after 1s
a
no troupe node answers
trying again every 1s
the node answers again, after 1s
b
`
	check.Equal(t, b.String(), want, "got")
}

func TestWatchOnATerminal(t *testing.T) {
	var b bytes.Buffer
	terminal := Terminal{Live: true, Size: func() (int, int) { return 80, 24 }}
	check.Fatal(t, watch(t, terminal, &b, "a", errors.New("gone"), "b"))
	want := "\x1b[2J\x1b[Ha\x1b[K\n\x1b[J" +
		"\x1b[Hgone; trying again since 12:00:01\x1b[K\n\x1b[K\na\x1b[K\n\x1b[J" +
		"\x1b[Hb\x1b[K\n\x1b[J"
	check.Equal(t, b.String(), want, "got")
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWatchEndsWithItsOutput(t *testing.T) {
	if err := watch(t, Terminal{}, closed{}, "a", "b"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

func TestMiddle(t *testing.T) {
	for in, want := range map[string]string{"short": "short", "0123456789": "0123456789", "0123456789a": "0123…6789a", "a\nb": "a b"} {
		check.Equal(t, Middle(in, 10), want, "Middle(%q)", in)
	}
	check.Equal(t, Middle("0123456789a", 0), "0123456789a", "without a limit")
}
