package volumes

import (
	"fmt"
	"path"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// isDevice reports whether a volume of a pod is a device of this machine (volumeMode Block).
func (p *volumed) isDevice(volume string) bool {
	m := p.named(volume)
	return m != nil && podspec.IsDevice(m.Persistent)
}

// mapped says in an event that a device is there, as a kubelet does. That of a file system it does not say.
func (a *volumes) mapped(ctx *kernel.Context[Message], p *volumed, volume, at string) {
	if p.pod == nil || p.down || !p.isDevice(volume) {
		return
	}
	a.deps.Events.Record(port.Event{Pod: p.pod, Reason: "SuccessfulMountVolume", At: ctx.Now(), Message: fmt.Sprintf(
		"MapVolume.MapPodDevice succeeded for volume %q globalMapPath %q", p.named(volume).Shown(), path.Dir(at))})
}
