package suite

import (
	"regexp"
	"strings"
)

// matcher says which top-level tests match an argument of -run, which may go on with names of subtests after a slash.
// It is for leaving out packages: where the argument is no regular expression, go test is to say so.
func matcher(run string) func(name string) bool {
	var first []*regexp.Regexp
	for _, way := range split(run, '|') {
		r, err := regexp.Compile(split(way, '/')[0])
		if err != nil {
			return func(string) bool { return true }
		}
		first = append(first, r)
	}
	return func(name string) bool {
		for _, r := range first {
			if r.MatchString(name) {
				return true
			}
		}
		return false
	}
}

// split splits s at a separator that is not in brackets.
func split(s string, at byte) []string {
	var parts []string
	depth, begin := 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case strings.IndexByte("([", c) >= 0:
			depth++
		case strings.IndexByte(")]", c) >= 0:
			depth--
		case c == at && depth == 0:
			parts = append(parts, s[begin:i])
			begin = i + 1
		}
	}
	return append(parts, s[begin:])
}
