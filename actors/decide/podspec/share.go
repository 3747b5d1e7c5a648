package podspec

import (
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
)

// Share is the beginning of a text that is in the status of one container: of at most so many bytes, and of no more
// than the container's share of what all containers of the pod may have together.
func Share(spec *v1.PodSpec, text string, most, all int) string {
	n := min(most, all/max(len(spec.Containers)+len(spec.InitContainers)+len(spec.EphemeralContainers), 1))
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
