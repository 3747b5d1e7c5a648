package config

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/manifest/strictyaml"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	// Origin is the file or the flag that set the field; empty when a default
	// did.
	Origin string
	// Field is the path in KubeletConfiguration; empty when Origin is a flag
	// without one, or the file as a whole is meant.
	Field string
	// Value is what is there, shortened; empty when there is none.
	Value string
	// Message says what is wrong and what to do.
	Message string
}

func (p Problem) String() string {
	parts := make([]string, 0, 4)
	for _, s := range []string{p.Origin, p.Field, p.Value, p.Message} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Error is everything that is wrong with the configuration, as one line.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	parts := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		parts = append(parts, p.String())
	}
	if len(parts) == 1 {
		return "invalid configuration: " + parts[0]
	}
	return fmt.Sprintf("invalid configuration, %d errors: %s", len(parts), strings.Join(parts, "; "))
}

func fromMistakes(origin string, mistakes []strictyaml.Mistake) []Problem {
	problems := make([]Problem, 0, len(mistakes))
	for _, m := range mistakes {
		problems = append(problems, Problem{Origin: origin, Field: m.Field, Value: m.Value, Message: m.Message})
	}
	return problems
}

func fromFieldErrors(origins origins, errs field.ErrorList) []Problem {
	problems := make([]Problem, 0, len(errs))
	for _, e := range errs {
		p := Problem{Origin: origins.of(e.Field), Field: e.Field, Message: e.Detail}
		switch e.Type {
		case field.ErrorTypeRequired:
			p.Message = strings.TrimSuffix("must be given: "+e.Detail, ": ")
		case field.ErrorTypeForbidden:
		default:
			p.Value = strictyaml.Show(e.BadValue)
		}
		if e.Type == field.ErrorTypeDuplicate {
			p.Message = "given twice"
		}
		problems = append(problems, p)
	}
	return problems
}

// origins remembers which file or flag set a field. Keys are the path's
// segments, joined by NUL: map keys have dots in them.
type origins map[string]string

const joint = "\x00"

// record notes that every leaf of a tree is from origin.
func (o origins) record(tree map[string]any, origin string, at ...string) {
	for name, v := range tree {
		path := append(at[:len(at):len(at)], name)
		if m, ok := v.(map[string]any); ok {
			o.record(m, origin, path...)
			continue
		}
		o[strings.Join(path, joint)] = origin
	}
}

// replace notes that a whole field is from origin, whatever set parts of it before.
func (o origins) replace(path, origin string) {
	key := strings.Join(segments(path), joint)
	for k := range o {
		if strings.HasPrefix(k, key+joint) {
			delete(o, k)
		}
	}
	o[key] = origin
}

// of finds the origin of a field, or of the nearest enclosing one. A field whose inner fields
// were set by others has their origin.
func (o origins) of(path string) string {
	parts := segments(path)
	for n := len(parts); n > 0; n-- {
		key := strings.Join(parts[:n], joint)
		if origin, ok := o[key]; ok {
			return origin
		}
		best := ""
		for k, origin := range o {
			if strings.HasPrefix(k, key+joint) && (best == "" || origin < best) {
				best = origin
			}
		}
		if best != "" {
			return best
		}
	}
	return ""
}

// segments takes a field path apart: a.b[c.d][0] is a, b, c.d, 0.
func segments(path string) []string {
	var parts []string
	for path != "" {
		if rest, ok := strings.CutPrefix(path, "["); ok {
			part, after, _ := strings.Cut(rest, "]")
			parts = append(parts, part)
			path = strings.TrimPrefix(after, ".")
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			return append(parts, path)
		}
		parts = append(parts, path[:end])
		path = strings.TrimPrefix(path[end:], ".")
	}
	return parts
}
