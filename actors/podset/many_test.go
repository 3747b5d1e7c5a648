package podset_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestManyNotes: when it is written that containers of a pod are stopped to be restarted, each costs the same, however
// many there are.
func TestManyNotes(t *testing.T) {
	linear.Held(t, 250, func(n int) func() {
		r := runningNode(t, func(r *rig) { r.saves.Silent = true })
		r.answers()
		for i := range n {
			r.tells(podset.NoteRestart{NoteRestart: pod.NoteRestart{
				UID: "a", Container: fmt.Sprint("c", i), Note: podlife.RestartNote{ID: fmt.Sprint(i), Cause: podlife.ProbeFailed},
			}})
		}
		r.answers() // the first was written
		return r.answers
	})
}

// TestManyRejected: while no pod more fits on the node, thousands of manifests that were rejected are not tried one by one
// whenever something happens. When one fits, the others are not rejected once more.
func TestManyRejected(t *testing.T) {
	r := newRig(t, 0, func(r *rig) { r.room, r.short = 1, v1.ResourceList{v1.ResourcePods: resource.MustParse("1")} })
	all := []*v1.Pod{made("a"), made("b"), made("c"), made("d")}
	r.tells(node, r.listed(""), has(podspec.API, ""), wants(podspec.File, all...))
	r.in("one fits", "a Running, b Rejected, c Rejected, d Rejected")
	before := r.checks
	r.tells(node)
	check.Equal(t, r.checks-before, 1, "checks")
	r.Forget()
	r.tells(wants(podspec.File, all[1:]...), ends("a", 0, 1))
	r.in("another one fits", "a Collecting, b Running, c Rejected, d Rejected")
	r.want("nobody is rejected again", []string{"event:"})
}
