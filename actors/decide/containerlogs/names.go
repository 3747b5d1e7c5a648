package containerlogs

import (
	"strconv"
	"strings"
)

// Suffix is the suffix of a current file's name, after the attempt.
const Suffix = ".log"

// ParseFile parses the name of a file in a container's log directory. beside is empty for the
// current file.
func ParseFile(name string) (attempt uint32, beside string, ok bool) {
	number, rest, _ := strings.Cut(name, Suffix)
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || !strings.HasPrefix(name, number+Suffix) || rest != "" && (rest[0] != '.' || rest == ".") {
		return 0, "", false
	}
	return uint32(n), strings.TrimPrefix(rest, "."), true
}

// ParsePodDir parses the name of a pod's log directory.
func ParsePodDir(name string) (namespace, pod, uid string, ok bool) {
	namespace, rest, _ := strings.Cut(name, "_")
	pod, uid, ok = strings.Cut(rest, "_")
	return namespace, pod, uid, ok
}
