package lab

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

//tier:unit
func TestDefaults(t *testing.T) {
	const defaults = "a: 1\nb: {c: 2}\n"
	for settings, want := range map[string]string{
		"":                 defaults,
		"a: 3\n":           "b: {c: 2}\n",
		"b: {}\n":          "a: 1\n",
		"c: 4\n":           defaults,
		"x: 1\nb: 2\na: 0": "",
	} {
		check.Equal(t, Defaults(defaults, settings), want, "Defaults(%q, %q)", defaults, settings)
	}
}
