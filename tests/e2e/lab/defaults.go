package lab

import "strings"

// Defaults are the lines of defaults whose setting is not among settings. Both are lines of KubeletConfiguration, one
// a setting in defaults.
func Defaults(defaults, settings string) (text string) {
	for line := range strings.Lines(defaults) {
		if key, _, _ := strings.Cut(line, ":"); !strings.Contains(settings, key+":") {
			text += line
		}
	}
	return text
}
