package lab

import "testing"

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
		if got := Defaults(defaults, settings); got != want {
			t.Errorf("Defaults(%q, %q) is %q; want %q", defaults, settings, got, want)
		}
	}
}
