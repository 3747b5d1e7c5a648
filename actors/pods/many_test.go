package pods_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestManyEnds: pods that end together, of a source or of none, are looked at together: a node may have thousands of Jobs
// that have completed, and a runtime what nobody wants.
func TestManyEnds(t *testing.T) {
	names := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint("p", i))
		}
		return strings.Join(all, " ")
	}
	of := func(n int) pods.Message { return has(podspec.API, names(n)) }
	for name, c := range map[string]struct {
		before func(r *rig, n int)
		end    func(uid types.UID) pods.Message
	}{
		"nothing of them runs any more": {
			func(r *rig, n int) { r.tells(node, r.listed(""), has(podspec.File, ""), of(n)) },
			func(uid types.UID) pods.Message {
				m := reports(uid, v1.PodSucceeded, 0)
				m.Down = true
				return m
			},
		},
		"they have ended": {
			func(r *rig, n int) { r.tells(node, r.listed(""), has(podspec.File, ""), of(n)) },
			func(uid types.UID) pods.Message { return ends(uid, 0, 1) },
		},
		"nothing is left of them": {
			func(r *rig, n int) {
				r.tells(node, r.listed(names(n)), has(podspec.File, ""), has(podspec.API, ""))
				for uid := range strings.FieldsSeq(names(n)) {
					r.actor.Tell(ends(types.UID(uid), 0, 1))
				}
				r.Settle()
			},
			func(uid types.UID) pods.Message { return pods.Collected{UID: uid} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, 250, func(n int) func() {
				r := newRig(t, 0)
				c.before(r, n)
				return func() {
					for uid := range strings.FieldsSeq(names(n)) {
						r.actor.Tell(c.end(types.UID(uid)))
					}
					r.Settle()
				}
			})
		})
	}
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
