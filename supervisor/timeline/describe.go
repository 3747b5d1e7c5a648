package timeline

import (
	"strings"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podset"
)

// probing is the actor whose calls come again and again.
const probing = "probes"

// shorten bounds a text.
func shorten(s string) string {
	if len(s) > textLimit {
		return strings.Clone(strings.ToValidUTF8(s[:textLimit], "")) + "…"
	}
	return s
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}

// describe says in short what a message to a pod's actor carries. Nothing of the
// pod's spec, and no content of an object, goes in.
func describe(msg any) (text string, bad bool) {
	switch m := msg.(type) {
	case pod.Assign:
		if m.Stop != nil {
			return "to terminate within " + m.Stop.Grace.String() + ": " + m.Stop.Why, false
		}
		return "to run", false
	case pod.RuntimeHint:
		return "container " + m.Kind.String() + " " + shortID(m.ID), false
	case pod.ImageAnswer:
		switch m.Image.State {
		case imagepull.Ready:
			return m.Container + ": " + m.Image.Image + " is present", false
		case imagepull.Failed:
			return m.Container + ": " + joined(m.Image.Reason, m.Image.Message), !m.Image.Ahead
		case imagepull.Unknown, imagepull.Pending:
		}
		return m.Container + ": " + m.Image.Image + " is being looked up or pulled", false
	case pod.VolumesAnswer:
		switch m.Volumes.State {
		case volumeplan.Up:
			return "all are mounted", false
		case volumeplan.Failed:
			return m.Volumes.Message, true
		case volumeplan.Down:
			return "none are mounted", false
		case volumeplan.Pending:
		}
		return joined("not all are mounted", m.Volumes.Message), m.Volumes.Message != ""
	case pod.CgroupAnswer:
		return m.Cgroup.Message, m.Cgroup.Message != ""
	case pod.Probed:
		return probed(m)
	}
	return "", false
}

func probed(m pod.Probed) (string, bool) {
	var parts []string
	bad := false
	for _, p := range [...]struct {
		name string
		is   probe.Result
	}{{"startup", m.Health.Startup}, {"liveness", m.Health.Liveness}, {"readiness", m.Health.Readiness}} {
		switch p.is {
		case probe.Success:
			parts = append(parts, p.name+" passes")
		case probe.Failure:
			parts, bad = append(parts, p.name+" fails"), true
		case probe.None, probe.Unknown:
		}
	}
	return joined(strings.Join(parts, ", "), m.Health.Message), bad
}

// shortID is as much of a runtime's ID as finds it.
func shortID(id string) string {
	const enough = 12
	return id[:min(len(id), enough)]
}

// learn takes what a message to a pod's actor says of the pod itself.
func (r *Recorder) learn(s *podTimeline, msg any) {
	switch m := msg.(type) {
	case pod.Assign:
		s.namespace, s.name = m.Pod.Namespace, m.Pod.Name
	case pod.ImageAnswer:
		if m.Image.State == imagepull.Ready {
			r.unwaitFor(s, m.Image.Image)
		}
	}
}

// overheard takes what other actors are told about a pod.
func (r *Recorder) overheard(now int64, msg any) {
	switch m := msg.(type) {
	case images.Ensure:
		r.mu.Lock()
		r.wait(r.podTimeline(m.Pod.UID), m.Ask.Image)
		r.mu.Unlock()
	case podset.Reported:
		if m.Status == nil {
			return
		}
		text := shorten(joined(podstatus.Line(m.Status), m.Trouble))
		r.mu.Lock()
		r.add(r.podTimeline(m.UID), entry{at: now, kind: Status, what: m.Life, text: text, bad: m.Trouble != ""})
		r.mu.Unlock()
	case podset.Finished:
		r.mu.Lock()
		r.end(m.UID, now)
		r.mu.Unlock()
	}
}
