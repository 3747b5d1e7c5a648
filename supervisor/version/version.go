// Package version says which troupe this program is, and which Kubernetes it speaks: the one place for both.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// own is troupe's version without a v, such as 0.36.0. A release sets it by
// -ldflags "-X github.com/troupe-dev/troupe/supervisor/version.own=0.36.0": what is built from a tarball has no other
// way to know. Without it the version is that of Go's build information.
var own string

// kubernetes is the version if the program does not say what API it was built with.
const kubernetes = "v1.36.0"

// Own is troupe's version: a semantic version without a v, or devel.
func Own() string { return ownOf(own, info()) }

// Kubernetes is the version of Kubernetes that a node shows in the API (status.nodeInfo.kubeletVersion) and prints for
// --version: a semantic version with a v in front, with troupe's own version as build metadata. Schedulers and
// controllers parse it to decide what a node supports. So it is the version of the API that this was built with.
func Kubernetes() string { return shown(own, info()) }

// Line is what troupe version prints: the version, where it was built from, for which Kubernetes and machine.
func Line() string { return line(own, info()) }

// Commit is the revision of the source, if it was built in a checkout.
func Commit() string { return setting(info(), "vcs.revision") }

// info is the program's build information.
func info() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return &debug.BuildInfo{}
	}
	return info
}

func setting(info *debug.BuildInfo, key string) string {
	i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == key })
	if i < 0 {
		return ""
	}
	return info.Settings[i].Value
}

func ownOf(set string, info *debug.BuildInfo) string {
	v := set
	if v == "" {
		v = info.Main.Version
	}
	if v = strings.TrimPrefix(v, "v"); v == "" || v == "(devel)" {
		return "devel"
	}
	return v
}

// api is the version of Kubernetes without metadata.
func api(info *debug.BuildInfo) string {
	i := slices.IndexFunc(info.Deps, func(d *debug.Module) bool { return d.Path == "k8s.io/api" })
	if i >= 0 {
		if v, ok := strings.CutPrefix(info.Deps[i].Version, "v0."); ok && !strings.Contains(v, "-") {
			return "v1." + v
		}
	}
	return kubernetes
}

func shown(set string, info *debug.BuildInfo) string {
	metadata := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '-' {
			return r
		}
		return '.'
	}, ownOf(set, info))
	return api(info) + "+troupe." + metadata
}

func line(set string, info *debug.BuildInfo) string {
	out := "troupe " + ownOf(set, info)
	if revision := setting(info, "vcs.revision"); revision != "" {
		out += " " + revision[:min(12, len(revision))]
		if setting(info, "vcs.modified") == "true" {
			out += " (modified)"
		}
	}
	return fmt.Sprintf("%s for Kubernetes %s, %s %s/%s", out, api(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
