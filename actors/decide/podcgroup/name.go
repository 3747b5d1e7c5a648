package podcgroup

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Driver is what makes cgroups: the agent in the file system, or systemd, with a slice for each.
// The runtime must use the same.
type Driver uint8

const (
	Cgroupfs Driver = iota
	Systemd
)

func (d Driver) String() string { return [...]string{"cgroupfs", "systemd"}[d] }

// ParseDriver returns a driver by its name (KubeletConfiguration cgroupDriver).
func ParseDriver(s string) (Driver, bool) {
	switch s {
	case "cgroupfs":
		return Cgroupfs, true
	case "systemd":
		return Systemd, true
	default:
		return 0, false
	}
}

// Name is the path of a cgroup in the hierarchy, from the top, in a form independent of the driver:
// kubepods, burstable, pod1-2-3.
type Name []string

const (
	top       = "kubepods"
	podPrefix = "pod"
	slice     = ".slice"
)

// ParseName parses a name from a configuration: a path, or a slice, whose last element contains the
// whole path.
func ParseName(text string, d Driver) Name {
	var parts []string
	if bare, is := strings.CutSuffix(text, slice); is && d == Systemd {
		parts = strings.Split(bare[strings.LastIndexByte(bare, '/')+1:], "-")
		for i := range parts {
			parts[i] = decoded(parts[i], d)
		}
	} else {
		parts = strings.Split(text, "/")
	}
	n := Name{}
	for _, p := range parts {
		if p != "" && p != "." {
			n = append(n, p)
		}
	}
	return n
}

// ParseReserved parses the name of a cgroup that others have made (systemReservedCgroup, kubeReservedCgroup). For
// systemd it is that of a slice, with or without its suffix, and whatever stands before the last slash is not read:
// /kube-reserved is kube-reserved.slice below kube.slice. (cgroup_manager_linux.go, ParseSystemdToCgroupName)
func ParseReserved(text string, d Driver) Name {
	if d == Systemd {
		text = strings.TrimSuffix(text, slice) + slice
	}
	return ParseName(text, d)
}

// Path is the name as a path from the root of a hierarchy. A slice's path contains all slices above
// it (systemd.slice(5)): /a.slice/a-b.slice.
func (n Name) Path(d Driver) string {
	if d == Cgroupfs {
		return "/" + strings.Join(n, "/")
	}
	var path, prefix strings.Builder
	for i, p := range n {
		if i > 0 {
			prefix.WriteByte('-')
		}
		prefix.WriteString(encoded(p, d))
		path.WriteString("/" + prefix.String() + slice)
	}
	if len(n) == 0 {
		return "/"
	}
	return path.String()
}

// In a slice's name a dash separates levels, so a dash within a part becomes an underscore.
func encoded(part string, d Driver) string {
	if d == Systemd {
		return strings.ReplaceAll(part, "-", "_")
	}
	return part
}

func decoded(part string, d Driver) string {
	if d == Systemd {
		return strings.ReplaceAll(part, "_", "-")
	}
	return part
}

// below is the name of a child of n.
func (n Name) below(part string) Name { return append(n[:len(n):len(n)], part) }

// Top is the cgroup of all pods.
func (s *Settings) Top() Name { return ParseName(s.Root, s.Driver).below(top) }

// Class is the cgroup of the pods of a class. Guaranteed pods are directly below Top.
func (s *Settings) Class(class v1.PodQOSClass) Name {
	switch class {
	case v1.PodQOSBurstable, v1.PodQOSBestEffort:
		return s.Top().below(strings.ToLower(string(class)))
	case v1.PodQOSGuaranteed:
		return s.Top()
	default:
		panic("podcgroup: no class " + string(class))
	}
}

// Classes are all classes, the one that contains the others first.
var Classes = [...]v1.PodQOSClass{v1.PodQOSGuaranteed, v1.PodQOSBurstable, v1.PodQOSBestEffort}

// Pod is the cgroup of a pod. It fails for a UID with other characters than letters, digits and
// dashes, which the apiserver never assigns.
func (s *Settings) Pod(pod *v1.Pod) (Name, error) {
	return s.PodIn(podspec.Class(pod), pod.UID)
}

// PodIn is the cgroup of a pod of that class.
func (s *Settings) PodIn(class v1.PodQOSClass, uid types.UID) (Name, error) {
	if !names(string(uid)) {
		return nil, fmt.Errorf("metadata.uid %q cannot name a cgroup: only letters, digits and - can be in it", uid)
	}
	return s.Class(class).below(podPrefix + string(uid)), nil
}

func names(uid string) bool {
	for i := range len(uid) {
		c := uid[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return uid != ""
}

// UIDOf is the UID of the pod whose cgroup has this directory name; false if it is not a pod's.
func UIDOf(directory string, d Driver) (types.UID, bool) {
	if d == Systemd {
		var is bool
		if directory, is = strings.CutSuffix(directory, slice); !is {
			return "", false
		}
		directory = directory[strings.LastIndexByte(directory, '-')+1:]
	}
	uid, is := strings.CutPrefix(decoded(directory, d), podPrefix)
	return types.UID(uid), is && names(uid)
}
