package scenarios

import (
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// TestExploreCSI: pods with volumes of a CSI driver, some of them shared, come and go; the driver stops, crashes, fails,
// hangs, answers late and works late; the agent is killed also within its calls; the machine loses its power, volumes are
// expanded. The rules about volumes hold at every instant, and in the end nothing is left that no pod needs.
func TestExploreCSI(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 1, 12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c, twin := chaos.Draw(seed, plan.Profile{CSI: true, Pods: 4, Ops: 10})
			for _, r := range []*chaos.Result{twin, chaos.Run(c)} {
				if len(r.Violations) > 0 {
					t.Errorf("%v\ntroupe chaos run '%s'", r.Violations, r.Case.Line())
				}
			}
		})
	}
}
