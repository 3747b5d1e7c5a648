package screen

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Interval is how often a watched agent is asked.
const Interval = time.Second

// Terminal is what an output can show.
type Terminal struct {
	// Live: it can be drawn over. Color: it may have colors.
	Live, Color bool
	// Size gives its columns and lines, 0 if unknown.
	Size func() (columns, lines int)
}

// TerminalOf finds out what w is.
func TerminalOf(w io.Writer) Terminal {
	none := Terminal{Size: func() (int, int) { return 0, 0 }}
	f, ok := w.(*os.File)
	if !ok {
		return none
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return none
	}
	live := os.Getenv("TERM") != "dumb"
	return Terminal{
		Live:  live,
		Color: live && os.Getenv("NO_COLOR") == "",
		Size: func() (int, int) {
			size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
			if err != nil {
				return 0, 0
			}
			return int(size.Col), int(size.Row)
		},
	}
}

// Watch asks for something again and again, until ctx ends, which is no error.
type Watch[T any] struct {
	Ask func(ctx context.Context) (T, error)
	// Draw gives the whole for a terminal.
	Draw func(T) string
	// Lines gives what is new since the last call, for anything else.
	Lines func(T) []string
	// Ticks says when to ask; every Interval if nil.
	Ticks <-chan time.Time
	// Now is time.Now if nil.
	Now func() time.Time
}

// Run writes to w. It tells when the agent goes away, and continues when it is
// back. Only an error of w ends it, and ctx.
func (x Watch[T]) Run(ctx context.Context, w io.Writer, t Terminal) error {
	if x.Now == nil {
		x.Now = time.Now
	}
	if x.Ticks == nil {
		ticker := time.NewTicker(Interval)
		defer ticker.Stop()
		x.Ticks = ticker.C
	}
	s := &session[T]{Watch: x, w: w, t: t}
	for {
		v, err := x.Ask(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := s.show(v, err); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-x.Ticks:
		}
	}
}

// session is one Watch being run.
type session[T any] struct {
	Watch[T]
	w io.Writer
	t Terminal
	// frame is what was drawn last, gone why there is no answer, if there is none.
	frame string
	gone  string
	since time.Time
	begun bool
}

func (s *session[T]) show(v T, err error) error {
	was := s.gone
	s.gone = ""
	if err != nil {
		s.gone = Line(err.Error(), 0)
		if was == "" {
			s.since = s.Now()
		}
	}
	if s.t.Live {
		return s.draw(v)
	}
	var lines []string
	switch {
	case s.gone != "" && was == "":
		lines = []string{s.gone, "trying again every " + Interval.String()}
	case s.gone != "":
		return nil
	case was != "":
		lines = append([]string{fmt.Sprintf("the node answers again, after %s", s.Now().Sub(s.since).Round(time.Second))},
			s.Lines(v)...)
	default:
		lines = s.Lines(v)
	}
	if len(lines) == 0 {
		return nil
	}
	_, err = io.WriteString(s.w, strings.Join(lines, "\n")+"\n")
	return err
}

// draw replaces what is on the terminal, if that changed. The last good frame
// stays while the agent is away.
func (s *session[T]) draw(v T) error {
	if s.gone == "" {
		s.frame = s.Draw(v)
	}
	text := s.frame
	if s.gone != "" {
		note := fmt.Sprintf("%s; trying again since %s", s.gone, s.since.Format(time.TimeOnly))
		text = Red(note, s.t.Color) + "\n\n" + text
	}
	columns, lines := s.t.Size()
	out := "\x1b[H"
	if !s.begun {
		out, s.begun = "\x1b[2J\x1b[H", true
	}
	for _, line := range fit(text, columns, lines) {
		out += line + "\x1b[K\n"
	}
	_, err := io.WriteString(s.w, out+"\x1b[J")
	return err
}

// fit cuts text to a terminal. The last line stays free, for the cursor.
func fit(text string, columns, lines int) []string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if lines > 2 && len(all) > lines-1 {
		extra := len(all) - (lines - 2)
		all = append(all[:lines-2:lines-2], fmt.Sprintf("… and %d lines more", extra))
	}
	if columns > 0 {
		for i := range all {
			all[i] = cut(all[i], columns)
		}
	}
	return all
}

// cut leaves at most so many characters, colors aside, which it ends.
func cut(line string, columns int) string {
	var b strings.Builder
	shown, escape, colored := 0, false, false
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape, colored = true, true
		case escape:
			escape = r != 'm'
		case shown == columns:
			if colored {
				b.WriteString("\x1b[0m")
			}
			return b.String()
		default:
			shown++
		}
		b.WriteRune(r)
	}
	return b.String()
}
