package volumes

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/flat"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// CSI is where the volumes of CSI drivers are brought up: the actor csi.
type CSI interface {
	Use(UseCSI)
	Release(ReleaseCSI)
}

// UseCSI asks for volumes of a pod: in one message, because a pod may have more of them than a mailbox has places. It
// is answered with CSIAnswer each time, and again when something changes.
type UseCSI struct {
	Pod     *v1.Pod
	Volumes []CSIVolume
}

// CSIVolume is one of them. Name is that in the pod.
type CSIVolume struct {
	Name string
	Spec *csi.Spec
}

// ReleaseCSI says that nothing of a pod runs: its volumes are to be unpublished. It is answered with CSIReleased.
type ReleaseCSI struct{ UID types.UID }

// CSIAnswer says what is new of the volumes of a pod, in the order in which that became known. From csi. Lost: answered
// again when asked. Late: the newest counts.
type CSIAnswer struct {
	UID  types.UID
	News []CSINews
}

// CSINews says how far one volume is; with an empty Volume, how far ReleaseCSI is.
type CSINews struct {
	Volume string
	// Path is where it is, empty if it is not there.
	Path string
	// Failure is what has failed just now, Waiting what is waited for; either may be empty. Failure with a Path: it was to
	// be published once more.
	Failure, Waiting string
	// Unattached: it is not there because it is not attached to the node.
	Unattached bool
	// Walk is how far the change of the group of its files is, while that takes long.
	Walk csi.Walk
}

// CSIReleased says that nothing of a pod is published any more. From csi. Lost: ReleaseCSI is sent again.
type CSIReleased struct{ UID types.UID }

// CSIRestarted says that csi has lost what it was asked. From csi.
type CSIRestarted struct{}

func (CSIAnswer) isVolumesMessage()    {}
func (CSIReleased) isVolumesMessage()  {}
func (CSIRestarted) isVolumesMessage() {}

// useCSI asks for the CSI volumes of a pod.
func (a *volumes) useCSI(p *volumed) {
	if a.deps.CSI == nil || p.pod == nil || p.down || !p.prepared {
		return
	}
	var out []CSIVolume
	for i := range p.plan {
		m := &p.plan[i]
		if p.asked.Has(m.Name) {
			continue
		}
		spec := a.csiSpec(p, m)
		if spec == nil {
			continue
		}
		p.asked.Set(m.Name, true)
		if key := (call{mount, m.Name}); p.failures.At(key).obstacle {
			p.failures.Delete(key)
			p.pending = false // the pod was told of the failure
		}
		out = append(out, CSIVolume{m.Name, spec})
	}
	if len(out) > 0 {
		a.deps.CSI.Use(UseCSI{Pod: p.pod, Volumes: out})
	}
}

// csiSpec is what csi is asked for; nil for nothing. A volume that is there is asked for as it was the last time that
// it could be, whatever became of its claim or its secrets, but for the size that the claim wanted then.
func (a *volumes) csiSpec(p *volumed, m *volumeplan.Mount) *csi.Spec {
	if m.CSI != nil && a.obstacle(p, m) == nil && (m.CSI.NoStageSecret == "" || !p.paths.Has(m.Name)) {
		p.specs.Set(m.Name, m.CSI)
		return m.CSI
	}
	last := p.specs.At(m.Name)
	if last == nil || !p.paths.Has(m.Name) {
		return nil
	}
	out := *last
	out.Size = 0
	return &out
}

// ofCSI reports whether a volume is left to csi. One that is there needs no secrets any more.
func (a *volumes) ofCSI(p *volumed, m *volumeplan.Mount) bool {
	return a.deps.CSI != nil && m.CSI != nil && (a.obstacle(p, m) == nil || p.paths.Has(m.Name))
}

// releaseCSI has the CSI volumes of a pod unpublished, and reports whether they are.
func (a *volumes) releaseCSI(p *volumed, uid types.UID) bool {
	if a.deps.CSI == nil || p.released {
		return true
	}
	if !p.releasing {
		p.releasing = true
		a.deps.CSI.Release(ReleaseCSI{uid})
	}
	return false
}

func (a *volumes) csiAnswer(ctx *kernel.Context[Message], m CSIAnswer) {
	p := a.pods[m.UID]
	if p == nil {
		return
	}
	tells := false
	for _, n := range m.News {
		tells = a.csiNews(ctx, p, n) || tells
	}
	if tells {
		a.tell(p)
	}
}

// csiNews notes how far a volume is, and reports whether the pod is to be told of it.
func (a *volumes) csiNews(ctx *kernel.Context[Message], p *volumed, n CSINews) bool {
	of := p.named(n.Volume)
	if (n.Volume == "") != p.down || of == nil && !p.down {
		return false
	}
	key := call{mount, n.Volume}
	if p.down {
		key = call{unmount, ""}
	}
	p.csiWaits.Set(n.Volume, n.Waiting)
	p.unattached.Set(n.Volume, n.Unattached)
	switch {
	case n.Walk.Reports > 0 && n.Failure == "" && n.Path == "":
		if p.walked.At(n.Volume) != n.Walk {
			a.walked(ctx, p, n.Volume, n.Walk)
			return false
		}
	case n.Failure != "" && n.Path != "":
		a.event(ctx, p, of.Reason(), n.Failure)
		return false
	case n.Failure != "":
		f := p.failures.At(key)
		f.count++
		f.at, f.message, f.obstacle = ctx.Now(), n.Failure, false
		p.failures.Set(key, f)
		reason := "FailedUnMount"
		if !p.down {
			reason = of.Reason()
		}
		a.event(ctx, p, reason, n.Failure)
	case n.Path != "":
		if !p.paths.Has(n.Volume) {
			a.mapped(ctx, p, n.Volume, n.Path)
			a.sized(ctx, p, n.Volume, 0)
		}
		p.failures.Delete(key)
		p.stands(n.Volume, n.Path)
		p.walked.Delete(n.Volume)
	}
	return true
}

func (a *volumes) csiReleased(ctx *kernel.Context[Message], uid types.UID) {
	if p := a.pods[uid]; p != nil && p.down {
		p.released = true
		p.failures.Delete(call{unmount, ""})
		a.advance(ctx, uid)
	}
}

// csiRestarted asks csi again.
func (a *volumes) csiRestarted() {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		p := a.pods[uid]
		p.asked = flat.Many[string, bool]{}
		if p.down && !p.released {
			p.releasing = false
			a.releaseCSI(p, uid)
			continue
		}
		a.useCSI(p)
	}
}

// csiWaiting is what a CSI volume waits for, or the release of all; empty for nothing that is known.
func (p *volumed) csiWaiting(volume string) string {
	text := p.csiWaits.At(volume)
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %s", text)
}

// unknown: an object is not known yet. The pod tells when it is, and nodestatus for the Node.
func unknown(err error) bool {
	return podobjects.StateOf(err) == podobjects.Unknown || errors.Is(err, volumeplan.ErrNodeUnknown)
}
