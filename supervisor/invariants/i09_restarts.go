package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var restartsAfterAnEnd = rule{
	Rule: Rule{
		ID: "I09",
		Text: "A container is made again in a sandbox only after its last incarnation there has ended, and where that " +
			"ended by itself, only if the restart policy says so.",
		Excuses: "Another image: the container is stopped to be made again with it, and may end before the signal.",
	},
	changed: func(_ *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerCreatedEvent || p.spec == nil {
			return ""
		}
		l := p.lineage(t.Container)
		last := l.last
		switch {
		case l.running != nil && l.running.sandbox == t.Sandbox:
			return fmt.Sprintf("container %s was made again while it runs", t.Container)
		case last == nil || last.sandbox != t.Sandbox || last.attempt != l.newest || last.cause != simcri.ByItself,
			last.image != p.image(t.Container):
			return ""
		}
		spec, kind := podspec.Find(&p.spec.Spec, t.Container)
		if spec == nil || kind != podspec.Main || podspec.MayRestartAll(p.spec) || !last.asked.IsZero() ||
			podspec.RestartsAfter(spec, p.spec, last.exitCode) {
			return ""
		}
		return fmt.Sprintf("container %s was made again after it ended with code %d, against its restart policy",
			t.Container, last.exitCode)
	},
}
