// Package loglinks decides on the symlinks through which log collectors find the
// logs of containers, in /var/log/containers: what they are called, which are
// missing and which are dead.
//
//	<pod>_<namespace>_<container>-<ID>.log  ──►  <podLogsDir>/<namespace>_<pod>_<UID>/<container>/<attempt>.log
//
// Collectors take the metadata of a log from the name of its link. Names and
// targets are the kubelet's, so that either agent goes on with the links of the
// other.
package loglinks

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/logrotate"
)

// maxName is how many bytes the name of a file may have on ext4 and most others.
const maxName = 255

// Name is the name of the link. One that is too long is cut before its suffix, as a
// kubelet cuts it: then a part of the container's ID is missing, or all of it.
func Name(namespace, pod, container, id string) string {
	name := prefix(namespace, pod, container) + id
	return name[:min(len(name), maxName-len(logrotate.Suffix))] + logrotate.Suffix
}

func prefix(namespace, pod, container string) string {
	return pod + "_" + namespace + "_" + container + "-"
}

// Link is the link of one log, as it is to be.
type Link struct {
	Name, Target string
	// Attempt is the number of the container's incarnation.
	Attempt uint32
}

// Entry is one entry of the directory of links.
type Entry struct {
	Name string
	// Target is where the link leads, empty if the entry is no symlink.
	Target string
	Left   Left
	// Age is how long it has been there.
	Age time.Duration
}

// Left is what there is of the log that a link leads to.
type Left uint8

const (
	// LeftLog: the file is there, or nobody can tell.
	LeftLog Left = iota
	// LeftRotated: there are rotated files of this log. While a log is rotated it has
	// no current file for a moment.
	LeftRotated
	// LeftPod: of the log nothing is there, but the directory of its pod. A container
	// that was not started yet has none.
	LeftPod
	// LeftNothing: the directory of its pod is not there. An agent makes it before
	// the link: this log does not come back.
	LeftNothing
)

// settled is how old a link is that nobody makes just now. Between the link and
// the log are moments: the container is started next.
const settled = time.Minute

// Output is what to do.
type Output struct {
	// Make are the links that are missing, Replace those in whose place is another
	// one that is of no use any more.
	Make, Replace []Link
	// Taken are those in whose place is something that is not ours to remove.
	Taken []Link
	// Remove are the entries that are dead.
	Remove []Entry
}

// Plan compares what is there with the links that are to be, of all logs of the
// containers that the runtime has; own is podLogsDir. Whether the logs are there is
// not asked here: a link is made of one that is.
//
// Nothing is removed but symlinks that lead to what can only have been the log of a
// container and is gone for good. That may be the link of a second agent or of one
// that was here before: its own log is still there, or its pod's directory.
func Plan(entries []Entry, want []Link, own string) Output {
	var out Output
	wanted := newest(want)
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name] = true
		w, is := wanted[e.Name]
		switch {
		case is && e.Target == w.Target:
			// It stays as long as the container, whatever becomes of the log.
		case is && replaceable(e, w):
			out.Replace = append(out.Replace, w)
		case is:
			out.Taken = append(out.Taken, w)
		case Dead(e, own):
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

// newest are the wanted links by name. Of names that were cut several may be the
// same: the first pod's container has it, with its newest incarnation.
func newest(want []Link) map[string]Link {
	wanted := make(map[string]Link, len(want))
	for _, w := range want {
		if old, is := wanted[w.Name]; !is || path.Dir(old.Target) == path.Dir(w.Target) && w.Attempt > old.Attempt {
			wanted[w.Name] = w
		}
	}
	return wanted
}

// replaceable: it leads nowhere, or to an older incarnation of the same container.
func replaceable(e Entry, w Link) bool {
	if e.Target == "" {
		return false
	}
	attempt, _, ok := logrotate.ParseFile(path.Base(e.Target))
	return e.Left >= LeftPod || ok && path.Dir(e.Target) == path.Dir(w.Target) && attempt < w.Attempt
}

// Dead says whether a link, of no container that the runtime has, leads to a log
// that is gone for good. In our own directory of logs it is enough that the log is
// not there: who would make it has ended.
func Dead(e Entry, own string) bool {
	if !Leads(e.Name, e.Target) {
		return false
	}
	return e.Left == LeftNothing || e.Left == LeftPod && e.Age >= settled && path.Dir(podDir(e.Target)) == path.Clean(own)
}

// podDir is the directory of the logs of a pod, of the path of one of them.
func podDir(target string) string { return path.Dir(path.Dir(target)) }

// Leads says whether a link of that name, leading to target, is the link of a
// container's log: of whatever agent, and below whatever directory.
func Leads(name, target string) bool {
	if !path.IsAbs(target) || path.Clean(target) != target || !strings.HasSuffix(name, logrotate.Suffix) ||
		len(name) > maxName {
		return false
	}
	_, beside, isLog := logrotate.ParseFile(path.Base(target))
	namespace, pod, uid, isPod := logrotate.ParsePodDir(path.Base(podDir(target)))
	container := path.Base(path.Dir(target))
	if !isLog || beside != "" || !isPod || slices.Contains([]string{namespace, pod, uid, container}, "") {
		return false
	}
	begin := prefix(namespace, pod, container)
	if len(name) == maxName && len(begin) >= maxName-len(logrotate.Suffix) {
		return name == Name(namespace, pod, container, "")
	}
	id, ok := strings.CutPrefix(strings.TrimSuffix(name, logrotate.Suffix), begin)
	return ok && id != "" && strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}
