package invariants

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestStopsInOrder: when a pod ends, a sidecar is asked to stop before a main container only if something excuses it.
func TestStopsInOrder(t *testing.T) {
	deleted := func(r *rig) {
		grace := int64(30)
		p := r.spec()
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: r.now.Add(30 * time.Second)}, &grace
		r.tell(p)
	}
	for name, of := range map[string]struct {
		after time.Duration // since the agent was told
		do    func(*rig)
		want  bool
	}{
		"before the main container": {time.Second, func(*rig) {}, true},
		"after it was asked":        {time.Second, func(r *rig) { r.call(simcri.StopContainer, "u1app0") }, false},
		"after its end":             {time.Second, func(r *rig) { r.container("app", 0, ended) }, false},
		"at once":                   {0, func(*rig) {}, false},
		"its grace is over":         {31 * time.Second, func(*rig) {}, false},
		"a doubtful start": {time.Second, func(r *rig) {
			r.Called(simcri.Call{Method: simcri.StartContainer, Object: "u1app0", Pod: r.ref}, simcri.Fault{LoseReply: true})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig().up()
			deleted(r)
			r.now = r.now.Add(of.after)
			of.do(r)
			r.Called(r.stop("proxy", time.Second), simcri.Fault{})
			got := false
			for _, v := range r.found {
				got = got || v.ID == "I05"
			}
			check.Equal(t, got, of.want, "violations: %v", r.found)
		})
	}
}
