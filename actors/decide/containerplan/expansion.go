package containerplan

import (
	"errors"
	"strings"
)

// MaxExpanded is how many bytes a program's arguments and variables can take, together: execve(2) refuses more,
// whatever the limits of its process (3/4 of the kernel's default stack of 8 MiB, fs/exec.c).
const MaxExpanded = 6 << 20

// SmallExpansion is what is made wherever it is needed, and may wait there. What takes more is made for few containers
// at a time.
const SmallExpansion = 256 << 10

// ErrTooLong is the error of what no program can be started with.
var ErrTooLong = errors.New("more than 6 MiB with all variables expanded, and no program can be started with that " +
	"(execve: argument list too long)")

// Expansion is how many bytes may still be made.
type Expansion struct{ Left int }

// Expand replaces $(NAME) in s by value(NAME). An unknown name stays as it is, $$ becomes $, and
// everything else is literal. Values are not expanded again. These are the rules of the API fields
// command, args and env[].value. Its length is computed first: what does not fit is not made, and what fits takes no
// more memory than it is long.
func (r *Expansion) Expand(s string, value func(name string) (string, bool)) (string, error) {
	if strings.IndexByte(s, '$') < 0 {
		return s, r.take(len(s))
	}
	length := 0
	pieces(s, value, func(piece string) bool {
		length += len(piece)
		return length <= min(r.Left, MaxExpanded)
	})
	if err := r.take(length); err != nil {
		return "", err
	}
	var b strings.Builder
	b.Grow(length)
	pieces(s, value, func(piece string) bool { b.WriteString(piece); return true })
	return b.String(), nil
}

// pieces gives what s expands to, in pieces, until add says that it is enough.
func pieces(s string, value func(name string) (string, bool), add func(piece string) bool) {
	closed := strings.LastIndexByte(s, ')') - len(s) // from the end; what begins behind it is never closed
	for fits := true; fits; {
		at := strings.IndexByte(s, '$')
		if at < 0 || at == len(s)-1 {
			add(s)
			return
		}
		fits = add(s[:at])
		s = s[at:]
		switch s[1] {
		case '$':
			fits = fits && add("$")
			s = s[2:]
		case '(':
			n := len("$(")
			if len(s)+closed > 0 {
				n = strings.IndexByte(s, ')') + 1
			}
			if v, ok := value(s[2:max(2, n-1)]); ok && n > 2 {
				fits = fits && add(v)
			} else {
				fits = fits && add(s[:n])
			}
			s = s[n:]
		default:
			fits = fits && add("$")
			s = s[1:]
		}
	}
}

// take takes room for what was made.
func (r *Expansion) take(n int) error {
	if n > min(r.Left, MaxExpanded) {
		r.Left = 0
		return ErrTooLong
	}
	r.Left -= n
	return nil
}

// All expands each string of a list; nil for an empty one.
func (r *Expansion) All(list []string, value func(string) (string, bool)) ([]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		var err error
		if out[i], err = r.Expand(s, value); err != nil {
			return nil, err
		}
	}
	return out, nil
}
