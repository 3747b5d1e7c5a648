// Package envfile reads environment files that containers write for others (core/v1
// FileKeySelector, KEP-3721).
//
// The format is the subset of shell syntax that all shells read alike:
//
//	# a comment
//	NAME='value, over as many lines as it wants'  # and a comment
//
// Values have no escapes. "NAME= 'x'" sets NAME to nothing, as in a shell.
package envfile

import (
	"fmt"
	"strings"
)

// Max is the maximum size of a file, in bytes.
const Max = 1 << 20

// Value returns the first value of a key; found is false if there is none. It does not read what
// follows. Errors name the line but never quote it, because it may be a secret.
func Value(data []byte, key string) (value string, found bool, err error) {
	lines := strings.Split(string(data), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimLeft(strings.TrimSuffix(lines[i], "\r"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		fail := func(what string) (string, bool, error) { return "", false, fmt.Errorf("line %d: %s", i+1, what) }
		name, rest, ok := strings.Cut(line, "=")
		switch {
		case !ok:
			return fail("there is no =")
		case name == "":
			return fail("there is no name before the =")
		case strings.ContainsAny(name, " \t"):
			return fail("there must be no space before the =")
		}
		text := ""
		if rest == "" || rest[0] != ' ' && rest[0] != '\t' {
			first := i
			if !strings.HasPrefix(rest, "'") {
				return fail("the value must be in single quotes")
			}
			text, rest, ok = strings.Cut(rest[1:], "'")
			for !ok {
				if i++; i == len(lines) {
					i = first
					return fail("the quote is not closed")
				}
				var more string
				more, rest, ok = strings.Cut(lines[i], "'")
				text += "\n" + more
			}
			if after := strings.TrimLeft(strings.TrimSuffix(rest, "\r"), " \t"); after != "" && after[0] != '#' {
				return fail("unexpected text after the closing quote")
			}
		}
		if name == key {
			return text, true, nil
		}
	}
	return "", false, nil
}
