package gc

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestOverflowAsksOnce: whatever overflows the mailbox before lost messages were asked for, they are
// asked for once. Else the answers of a thousand pods would overflow it again, and ask again.
func TestOverflowAsksOnce(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		for n := range 20 {
			uid := types.UID(fmt.Sprintf("pod-%d-%d", i, n))
			r.actor.Tell(Collect{Ref: observed.PodRef{UID: uid, Namespace: "default", Name: string(uid)}})
		}
		r.Advance(10 * time.Millisecond)
	}
	r.Advance(gcPeriod / 4)
	check.Equal(t, r.restarted, 1, "pods were asked %d times to say everything again, want once", r.restarted)
}
