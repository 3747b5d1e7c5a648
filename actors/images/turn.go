package images

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// itsTurn begins anew for a container whose image was being pulled ahead of its turn (imagepull.Request): what failed
// meanwhile was no failure of its start, and the image may have come to the registry since. A pull under way becomes
// its own.
func (a *images) itsTurn(ctx *kernel.Context[Message], i *image, w *waiter) {
	if i.pulling != 0 {
		a.event(ctx, w, false, "Pulling", fmt.Sprintf("Pulling image %q", i.name))
		return
	}
	if !i.failures[w.pod.UID].inTurn {
		delete(i.failures, w.pod.UID)
	}
}
