// Package expansion replaces variable references in commands, arguments and values.
package expansion

import "strings"

// Expand replaces $(NAME) in s by value(NAME). An unknown name stays as it is, $$ becomes $, and
// everything else is literal. Values are not expanded again. These are the rules of the API fields
// command, args and env[].value.
func Expand(s string, value func(name string) (string, bool)) string {
	if strings.IndexByte(s, '$') < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for {
		at := strings.IndexByte(s, '$')
		if at < 0 || at == len(s)-1 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:at])
		s = s[at:]
		switch s[1] {
		case '$':
			b.WriteByte('$')
			s = s[2:]
		case '(':
			n := reference(s)
			if v, ok := value(s[2:max(2, n-1)]); ok && n > 2 {
				b.WriteString(v)
			} else {
				b.WriteString(s[:n])
			}
			s = s[n:]
		default:
			b.WriteByte('$')
			s = s[1:]
		}
	}
}

// reference returns the length of the reference at the beginning of s, which starts with $(. If it
// is never closed, that is 2.
func reference(s string) int {
	if end := strings.IndexByte(s, ')'); end >= 0 {
		return end + 1
	}
	return len("$(")
}

// All expands each string of a list; nil for an empty one.
func All(list []string, value func(string) (string, bool)) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = Expand(s, value)
	}
	return out
}
