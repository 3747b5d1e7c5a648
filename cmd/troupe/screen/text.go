// Package screen has the shared output of the commands: tables, lines without control
// characters, and --watch, on a terminal and elsewhere.
package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line makes s one printable line of at most limit characters, or of any number
// if limit is 0. What containers write must not steer a terminal.
func Line(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if limit > 0 && utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit-1]) + "…"
	}
	return s
}

// Middle is Line, but leaves out what is in the middle: a chain of errors says
// at its end what the matter is.
func Middle(s string, limit int) string {
	r := []rune(Line(s, 0))
	if limit <= 0 || len(r) <= limit {
		return string(r)
	}
	tail := limit / 2
	return string(r[:limit-1-tail]) + "…" + string(r[len(r)-tail:])
}

// Table sets rows in columns.
type Table struct {
	Header []string
	rows   [][]string
}

// gap is between columns, as kubectl has it.
const gap = "   "

// Add takes one row.
func (t *Table) Add(cells []string) { t.rows = append(t.rows, cells) }

// Lines are the header, if there is one, and the rows.
func (t *Table) Lines() []string {
	all := t.rows
	if t.Header != nil {
		all = append([][]string{t.Header}, t.rows...)
	}
	widths := Widths(nil, all...)
	lines := make([]string, 0, len(all))
	for _, cells := range all {
		lines = append(lines, Format(cells, widths))
	}
	return lines
}

// Widths are those of columns that hold the rows and are at least as wide as before.
func Widths(before []int, rows ...[]string) []int {
	widths := append([]int(nil), before...)
	for _, cells := range rows {
		for i, c := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	return widths
}

// Format sets one row.
func Format(cells []string, widths []int) string {
	var b strings.Builder
	for i, c := range cells {
		b.WriteString(c)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(c))) + gap)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Red marks a line that needs attention, on a terminal.
func Red(s string, color bool) string { return paint("31", s, color) }

// Bold marks a heading, on a terminal.
func Bold(s string, color bool) string { return paint("1", s, color) }

func paint(code, s string, color bool) string {
	if !color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
