// Package expansion replaces variable references in what a container runs.
package expansion

import "strings"

// Expand replaces $(NAME) in s by what value gives for NAME. A name that value
// does not know stays as it is written, $$ stands for one $, and everything
// else is literal. Values are not expanded again. The rules are those of the
// API fields command, args and env[].value.
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

// reference returns the length of the reference that s, which begins with $(,
// begins with; 2, the opening alone, if it is never closed.
func reference(s string) int {
	if end := strings.IndexByte(s, ')'); end >= 0 {
		return end + 1
	}
	return len("$(")
}

// All is Expand of each of a list; nil if there is none.
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
