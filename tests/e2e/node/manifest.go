package node

import (
	"fmt"
	"strings"
)

// Manifest is that of a pod with a grace period in seconds and what its spec has besides, lines indented by two spaces. The
// volume f, where something mounts it and the spec has no volumes, is the directory of a test's own files.
func Manifest(name string, grace int, spec string) string {
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: %d\n%s\n",
		name, grace, strings.Trim(spec, "\n"))
	if strings.Contains(spec, "{name: f, mountPath: /f}") && !strings.Contains(spec, "  volumes:") {
		text += "  volumes: [{name: f, hostPath: {path: $FILES}}]\n"
	}
	return text
}
