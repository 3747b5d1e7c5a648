package volumes

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// shared tells that another pod has a volume, whose files stay with that group. From the effect of a mount. Lost:
// nobody is warned. Twice: warned twice.
type shared struct {
	uid    types.UID
	volume string
	group  int64
}

func (shared) isVolumesMessage() {}

// shared warns that a volume is of another group than its pod asks for, in the words of the kubelet.
func (a *volumes) shared(ctx *kernel.Context[Message], m shared) {
	p := a.pods[m.uid]
	if p == nil || p.down || p.pod == nil || podspec.FSGroup(p.pod) == nil {
		return
	}
	if v := p.named(m.volume); v != nil {
		a.event(ctx, p, "AlreadyMountedVolume", fmt.Sprintf("The requested fsGroup is %d, but the volume %s has GID %d. "+
			"The volume may not be shareable.", *podspec.FSGroup(p.pod), v.Shown(), m.group))
	}
}
