package containerlogs

import (
	"path"
	"slices"
	"strings"
	"time"
)

// maxName is the maximum length of a file name in bytes, on ext4 and most other file systems.
const maxName = 255

// LinkName is the name of the link. If it is too long it is cut before its suffix, as a kubelet does
// it. Then part of the container's ID is missing, or all of it.
func LinkName(namespace, pod, container, id string) string {
	name := prefix(namespace, pod, container) + id
	return name[:min(len(name), maxName-len(Suffix))] + Suffix
}

func prefix(namespace, pod, container string) string {
	return pod + "_" + namespace + "_" + container + "-"
}

// Link is the desired link of one log.
type Link struct {
	Name, Target string
	// Attempt is the number of the container's incarnation.
	Attempt uint32
}

// LinkEntry is one entry of the directory of links.
type LinkEntry struct {
	Name string
	// Target is the target of the link; empty if the entry is no symlink.
	Target string
	Left   Left
	// Age is how long it has been there.
	Age time.Duration
}

// Left is what exists of the log that a link leads to.
type Left uint8

const (
	// LeftLog: the file exists, or it is unknown whether it does.
	LeftLog Left = iota
	// LeftRotated: rotated files of this log exist. A log has no current file for a moment while it is
	// rotated.
	LeftRotated
	// LeftPod: nothing of the log exists, but the directory of its pod does. The container may not
	// have been started yet.
	LeftPod
	// LeftNothing: the directory of its pod does not exist. An agent makes it before the link, so this
	// log does not come back.
	LeftNothing
)

// settled is the age from which a link is not one that is just being made. Its log follows shortly
// after it, when the container starts.
const settled = time.Minute

// LinkOutput is what to do with the links.
type LinkOutput struct {
	// Make are the missing links. Replace are the links that must replace an outdated one of the same
	// name.
	Make, Replace []Link
	// Taken are the links whose name is used by something that is not ours to remove.
	Taken []Link
	// Remove are the dead entries.
	Remove []LinkEntry
}

// PlanLinks compares the directory with the desired links, which are those of all logs of the runtime's
// containers; own is podLogsDir. It does not check that the logs exist: the caller makes a link
// only if they do.
//
// It removes only symlinks to a path that can only be a container's log and is gone for good. A
// link may belong to a second or an earlier agent. Then its log or the directory of its pod still
// exists.
func PlanLinks(entries []LinkEntry, want []Link, own string) LinkOutput {
	var out LinkOutput
	wanted := newest(want)
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name] = true
		w, is := wanted[e.Name]
		switch {
		case is && e.Target == w.Target:
			// It stays as long as the container, whatever happens to the log.
		case is && replaceable(e, w):
			out.Replace = append(out.Replace, w)
		case is:
			out.Taken = append(out.Taken, w)
		case LinkDead(e, own):
			out.Remove = append(out.Remove, e)
		}
	}
	for _, w := range want {
		if !there[w.Name] && wanted[w.Name] == w {
			out.Make = append(out.Make, w)
		}
	}
	return out
}

// newest are the desired links by name. Cut names may be equal: then the first pod's container gets
// the name, with its newest incarnation.
func newest(want []Link) map[string]Link {
	wanted := make(map[string]Link, len(want))
	for _, w := range want {
		if old, is := wanted[w.Name]; !is || path.Dir(old.Target) == path.Dir(w.Target) && w.Attempt > old.Attempt {
			wanted[w.Name] = w
		}
	}
	return wanted
}

// replaceable: the target is gone, or it is an older incarnation of the same container.
func replaceable(e LinkEntry, w Link) bool {
	if e.Target == "" {
		return false
	}
	attempt, _, ok := ParseFile(path.Base(e.Target))
	return e.Left >= LeftPod || ok && path.Dir(e.Target) == path.Dir(w.Target) && attempt < w.Attempt
}

// LinkDead says whether a link, of no container of the runtime, leads to a log that is gone for good.
// In our own log directory a missing log is enough: the container that would write it has ended.
func LinkDead(e LinkEntry, own string) bool {
	if !LinkLeads(e.Name, e.Target) {
		return false
	}
	return e.Left == LeftNothing || e.Left == LeftPod && e.Age >= settled && path.Dir(podDir(e.Target)) == path.Clean(own)
}

// podDir is the log directory of the pod, from the path of one of its logs.
func podDir(target string) string { return path.Dir(path.Dir(target)) }

// LinkLeads says whether this name and target are those of a container's log, of any agent and in any
// directory.
func LinkLeads(name, target string) bool {
	if !path.IsAbs(target) || path.Clean(target) != target || !strings.HasSuffix(name, Suffix) ||
		len(name) > maxName {
		return false
	}
	_, beside, isLog := ParseFile(path.Base(target))
	namespace, pod, uid, isPod := ParsePodDir(path.Base(podDir(target)))
	container := path.Base(path.Dir(target))
	if !isLog || beside != "" || !isPod || slices.Contains([]string{namespace, pod, uid, container}, "") {
		return false
	}
	begin := prefix(namespace, pod, container)
	if len(name) == maxName && len(begin) >= maxName-len(Suffix) {
		return name == LinkName(namespace, pod, container, "")
	}
	id, ok := strings.CutPrefix(strings.TrimSuffix(name, Suffix), begin)
	return ok && id != "" && strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}
