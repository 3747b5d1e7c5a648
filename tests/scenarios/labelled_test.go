package scenarios

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
)

// TestLabelledAndBound: somebody labels the node and binds a pod that wants the label at once, and the watch of the
// Node is late. The pod runs; another one whose label the node does not have is refused.
func TestLabelledAndBound(t *testing.T) {
	t.Parallel()
	late := time.Duration(0)
	lag := func(s *simapi.Config) {
		s.ExtraLag = func(w simapi.Watching) time.Duration {
			if w.Selection.Kind == port.NodeKind {
				return late
			}
			return 0
		}
	}
	w, c := newClusterNode(t, 1, withAPI(lag))
	c.create(aPod("first"))
	w.until(time.Minute, "the node is up", func() bool { return c.ready("first") })
	late = time.Minute
	c.changeNode(zone("b"))
	for _, at := range []struct{ name, zone string }{{"here", "b"}, {"elsewhere", "c"}} {
		p := aPod(at.name)
		p.Spec.NodeSelector = map[string]string{"zone": at.zone}
		c.create(p)
	}
	w.until(10*time.Second, "one runs", func() bool { return c.ready("here") })
	w.until(10*time.Second, "one is refused", func() bool { return c.get("elsewhere").Status.Reason == "NodeAffinity" })
	w.clusterQuiet()
}
