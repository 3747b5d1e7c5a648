package agentdir

import (
	"strings"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// ContainersDir has a directory for each container, below that of their pod.
const ContainersDir = "containers"

// PodDir is the pod's directory below that of all pods.
func PodDir(uid string) (string, error) { return uid, Element("pod UID", uid) }

// LogDir is the pod's directory below that of all logs.
func LogDir(ref port.PodDirs) (string, error) {
	name := ref.Namespace + "_" + ref.Name + "_" + string(ref.UID)
	for _, c := range [][2]string{{"namespace", ref.Namespace}, {"pod name", ref.Name}, {"pod UID", string(ref.UID)}} {
		if err := Element(c[0], c[1]); err != nil {
			return "", err
		}
	}
	return name, nil
}

// Element refuses what is no single element of a path.
func Element(what, name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return hostcall.Failf(port.InvalidConfig, "%s %q cannot be the name of a directory", what, name)
	}
	return nil
}
