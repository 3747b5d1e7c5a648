package podplan

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/gate"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// candidate is a container that is to be created.
type candidate struct {
	c      *v1.Container
	newest *observed.Container // its last incarnation, nil for none
	// turn: its turn has come. held: it waits for the hook of a container before it.
	turn, held bool
	// ref is its image. pulled: that and the images that it mounts are there. noImage: the pull of one of them has failed,
	// and why says how the status shows it.
	ref             string
	pulled, noImage bool
	why             Waiting
}

// look says whether a gate is shut for a container, and what the status says meanwhile. The container may be nil for
// gates of the whole pod. A reason is also said of an open gate: that of a try that failed is, until one succeeds.
func (p *planner) look(g gate.Gate, n *candidate) (shut bool, reason, message string) {
	switch g {
	case gate.None, gate.Older, gate.Backoff: // drive has looked
	case gate.Image:
		return !n.pulled, n.why.Reason, n.why.Message
	case gate.Volumes:
		return p.in.Volumes.State != volumeplan.Up, "", p.in.Volumes.Message
	case gate.Cgroup:
		if p.in.Cgroup.State == podcgroup.Failed {
			message = p.in.Cgroup.Message
		}
		return p.sandbox == nil && p.in.Cgroup.Own && p.in.Cgroup.State != podcgroup.Up, "", message
	case gate.Claims:
		ready := p.in.Claims.Is(claims.Ready) || p.sandbox != nil && p.in.Claims.Has()
		return p.in.UsesClaims && !ready, "", p.in.Claims.Trouble()
	case gate.Sandbox:
		return p.sandbox == nil, "", p.in.Failures[Lane{Kind: LaneSandbox}].Message
	case gate.Turn:
		return !n.turn, "", ""
	case gate.Hook:
		if n.held && n.turn {
			message = "waiting for the postStart hook of container " + p.holds.name
		}
		return n.held, "", message
	case gate.Objects:
		if p.sandbox == nil {
			return p.in.Objects != nil && !p.in.Objects.SandboxKnown(p.in.Pod), "", ""
		}
		return p.in.Objects != nil && !p.in.Objects.EnvKnown(p.in.Pod, n.c), "", ""
	case gate.Address:
		none := p.sandbox == nil || len(p.sandbox.IPs) == 0
		return none && NeedsPodIP(n.c) && !p.in.Pod.Spec.HostNetwork, "", ""
	case gate.Room:
		return p.cgroupTooSmall, "", ""
	case gate.Restart:
		return p.epochUnknown, "", ""
	case gate.Retry:
		f, tried := p.in.Failures[Lane{Kind: LaneContainer, Name: n.c.Name}]
		return tried && p.now.Before(p.retryAt(f)), f.Reason, f.Message
	}
	return false, "", ""
}

// ask looks at the gates from first to last. It returns the first that is shut, and what the status says.
func (p *planner) ask(n *candidate, first, last gate.Gate) (at gate.Gate, w Waiting) {
	for g := first; g <= last; g++ {
		if at != gate.None && g.Silent() {
			continue
		}
		shut, reason, message := p.look(g, n)
		if shut && at == gate.None {
			at = g
		}
		if w.Reason == "" && (reason != "" || shut && message != "" && w.Message == "") {
			w = Waiting{Reason: reason, Message: message, Gate: g}
		}
	}
	if w.Gate == gate.None {
		w.Gate = at
	}
	return at, w
}

// ofPod is what the status says of a container for which only the gates of the whole pod count.
func (p *planner) ofPod(at gate.Gate) Waiting {
	_, w := p.ask(&candidate{}, gate.Volumes, gate.Sandbox)
	if w.Message == "" {
		w.Gate = at
	}
	return w
}

// Gates are, by container name, those that the messages of waiting containers are of.
func (o *Output) Gates() (out smallmap.Map[string, gate.Gate]) {
	for i := range o.Waiting {
		if e := &o.Waiting[i]; e.Value.Message != "" {
			out = append(out, smallmap.Entry[string, gate.Gate]{Key: e.Key, Value: e.Value.Gate})
		}
	}
	return out
}

// wait records why a container doesn't run. Without a reason it records the default one. An earlier record stands: it
// is more specific.
func (p *planner) wait(name string, w Waiting) {
	if p.waits.Has(name) {
		return
	}
	if w.Reason == "" {
		w.Reason = DefaultReason(p.in.Pod)
	}
	p.setWaiting(name, w)
}

func (p *planner) setWaiting(name string, w Waiting) {
	w.Message = podspec.Share(&p.in.Pod.Spec, w.Message, maxWaiting, maxAllWaiting)
	p.waits.Set(name, w)
}

// maxWaiting is how long the message is of a container that waits, and maxAllWaiting of all of a pod together, in
// bytes: what a pod waits for is in the status of each of its containers, and the apiserver takes no longer one.
const (
	maxWaiting    = 2 << 10
	maxAllWaiting = 128 << 10
)

// tellNoImage tells users that a container whose turn it is can't be made, because its image or that of a volume can't
// be had: once for each reason. A kubelet tells it at each look at the pod (kuberuntime_container.go startContainer,
// kuberuntime_manager.go toKubeContainerImageVolumes).
func (p *planner) tellNoImage(name string) {
	if w := p.waits.At(name); w != p.waitedFor(name) {
		p.note(Note{Warning: true, Reason: "Failed", Container: name, Message: "Error: " + w.Reason})
	}
}

// waitAll sets the default waiting reason for all containers of a pod that is not known yet.
func (p *planner) waitAll() {
	if len(p.in.View.Containers) > 0 {
		return
	}
	for c := range podspec.Lasting(&p.in.Pod.Spec) {
		p.wait(c.Name, p.ofPod(gate.Sandbox))
	}
}

// DefaultReason is the waiting reason of a container that waits for nothing in particular.
func DefaultReason(pod *v1.Pod) string {
	if len(pod.Spec.InitContainers) > 0 {
		return "PodInitializing"
	}
	return "ContainerCreating"
}
