package volumes

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// walked tells how many files of a volume have been given to the group of its pod, while that takes long. From its
// effect. Lost: the next one tells more.
type walked struct {
	uid    types.UID
	volume string
	files  int64
}

func (walked) isVolumesMessage() {}

// hostWalked is told by the host, of a mount that goes on.
func (a *volumes) hostWalked(ctx *kernel.Context[Message], m walked) {
	if p := a.pods[m.uid]; p != nil && p.running.Has(call{mount, m.volume}) {
		a.walked(ctx, p, m.volume, csi.Walk{Reports: p.walked.At(m.volume).Reports + 1, Files: m.files})
	}
}

// walked says that the group of a volume's files is being changed, and how far that is, as often as a kubelet does. The
// volume is mounted, so what failed before has not failed now.
func (a *volumes) walked(ctx *kernel.Context[Message], p *volumed, volume string, w csi.Walk) {
	p.walked.Set(volume, w)
	if p.down || p.pod == nil {
		return
	}
	if key := (call{mount, volume}); p.failures.Has(key) {
		p.failures.Delete(key)
		p.pending = false // the pod was told of the failure
	}
	a.event(ctx, p, "VolumePermissionChangeInProgress", fmt.Sprintf("Setting volume ownership of %q takes long: %s. "+
		"With fsGroupChangePolicy OnRootMismatch it is done once, and not for each pod",
		volume, w.Of(podspec.FSGroup(p.pod))))
	a.tell(p)
}

// silent is why a volume is not mounted whose mount goes on.
func (p *volumed) silent(m *volumeplan.Mount) string {
	if w := p.walked.At(m.Name); w.Reports > 0 {
		return ": " + w.Of(podspec.FSGroup(p.pod))
	}
	text := ": " + cmp.Or(m.Server, "its file system") + " does not answer"
	if m.Walks(p.pod) {
		text += csi.OrWalks(podspec.FSGroup(p.pod))
	}
	return text
}
