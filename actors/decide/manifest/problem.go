package manifest

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/manifest/strictyaml"
)

// Problem is one thing that is wrong with a manifest. It is a value that can
// be shown, compared and stored; it is also an error.
type Problem struct {
	// Source is the file path or URL. Never empty.
	Source string `json:"source"`
	// Field is the path of the field, like spec.containers[0].image; empty
	// when the manifest as a whole is meant.
	Field string `json:"field,omitempty"`
	// Value is what the field holds, shortened; empty when there is none.
	Value string `json:"value,omitempty"`
	// Message says what is wrong and what to do. Never empty.
	Message string `json:"message"`
	// Kept names the pods of the manifest's last good version, which keep running; empty if there are
	// none. Desired sets it.
	Kept string `json:"kept,omitempty"`
}

// Error gives the problem as one line: source, field, value, message, kept.
func (p Problem) Error() string {
	parts := make([]string, 0, 4)
	for _, s := range []string{p.Source, p.Field, p.Value, p.Message} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	line := strings.Join(parts, ": ")
	if p.Kept != "" {
		line += " (still running from the last valid version: " + p.Kept + ")"
	}
	return line
}

func compareProblems(a, b Problem) int {
	return cmp.Or(
		cmp.Compare(a.Source, b.Source),
		cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.Value, b.Value),
		cmp.Compare(a.Message, b.Message),
	)
}

// maxProblems bounds what is reported of one manifest: a broken file of
// 10 MiB must not fill a log.
const maxProblems = 20

// bounded sorts the problems of one manifest and cuts them off at maxProblems.
func bounded(source string, problems []Problem) []Problem {
	slices.SortFunc(problems, compareProblems)
	problems = slices.Compact(problems)
	if extra := len(problems) - maxProblems; extra > 0 {
		problems = append(problems[:maxProblems:maxProblems], Problem{
			Source:  source,
			Message: "more problems are not shown: fix these first",
		})
	}
	return problems
}

func fromMistakes(source string, mistakes []strictyaml.Mistake) []Problem {
	problems := make([]Problem, 0, len(mistakes))
	for _, m := range mistakes {
		problems = append(problems, Problem{Source: source, Field: m.Field, Value: m.Value, Message: m.Message})
	}
	return problems
}

// fromFieldErrors puts the errors of the API machinery's field package into
// ours. at is put before the field path, for a pod in a list.
func fromFieldErrors(source, at string, errs field.ErrorList) []Problem {
	problems := make([]Problem, 0, len(errs))
	for _, e := range errs {
		p := Problem{Source: source, Field: joinPath(at, e.Field), Message: e.Detail}
		switch e.Type {
		case field.ErrorTypeRequired:
			p.Message = joinMessage("must be given", e.Detail)
		case field.ErrorTypeForbidden, field.ErrorTypeInternal:
		case field.ErrorTypeDuplicate:
			p.Value = strictyaml.Show(e.BadValue)
			p.Message = joinMessage("given twice", e.Detail)
		case field.ErrorTypeNotFound:
			p.Value = strictyaml.Show(e.BadValue)
			p.Message = joinMessage("not found", e.Detail)
		default:
			p.Value = strictyaml.Show(e.BadValue)
		}
		if p.Message == "" {
			p.Message = e.Type.String()
		}
		problems = append(problems, p)
	}
	return problems
}

func joinMessage(first, rest string) string {
	if rest == "" {
		return first
	}
	return first + ": " + rest
}

func joinPath(at, path string) string {
	if at == "" {
		return path
	}
	return at + "." + path
}
