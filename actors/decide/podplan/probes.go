package podplan

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
)

// EachProbed calls yield for the newest of each container with probes, if there is one.
func (f *Facts) EachProbed(spec *v1.PodSpec, yield func(*v1.Container, *observed.Container)) {
	for ct := range podspec.Lasting(spec) {
		if !probe.Any(ct) {
			continue
		}
		of := f.View.Of(ct.Name)
		for i := range of {
			if c := &of[i]; c.Name == ct.Name {
				yield(ct, c)
				break
			}
		}
	}
}

// ExpectProbes sees to it that a running container with probes has a Health before any plan is made:
// without one it would count as started and ready.
func (f *Facts) ExpectProbes(spec *v1.PodSpec) {
	f.EachProbed(spec, func(ct *v1.Container, c *observed.Container) {
		if _, is := f.Health[c.ID]; is || c.State != observed.ContainerRunning {
			return
		}
		var h probe.Health
		if ct.StartupProbe != nil {
			h.Startup = probe.Unknown
		}
		if ct.LivenessProbe != nil {
			h.Liveness = probe.Success
		}
		if ct.ReadinessProbe != nil {
			h.Readiness = probe.Failure
			if f.Found(c.ID) { // what users are shown of it holds
				h.Readiness = probe.Unknown
			}
		}
		put(&f.Health, c.ID, h)
	})
}

// Probed takes in what the probes of a container say, and says whether it is still there. One that fails them may have
// ended, unseen. Where its exit would matter, it is read again before it is stopped.
func (f *Facts) Probed(pod *v1.Pod, id string, h probe.Health) bool {
	old, is := f.Health[id]
	c := f.Container(id)
	if !is || c == nil {
		return false
	}
	f.Health[id] = h
	if h.Failed() && !old.Failed() {
		if spec, _ := podspec.Find(&pod.Spec, c.Name); spec != nil && !alwaysAgain(spec, pod) {
			f.Reread(id)
		}
	}
	return true
}
