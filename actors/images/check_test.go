package images

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/smallmap"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the invariants one by one.
func TestCheck(t *testing.T) {
	w := &imagepull.Waiter{
		Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, Ask: imagepull.Request{Container: "app", Image: "i"},
	}
	lowest := &imagepull.Waiter{Lowest: true}
	i := &image{Image: imagepull.New("i")}
	i.Waiting = []*imagepull.Waiter{lowest, w}
	a := &images{of: map[string]*image{"i": i}, held: map[types.UID]smallmap.Many[string, string]{}}
	hold := func(name string) {
		var of smallmap.Many[string, string]
		of.Set("app", name)
		a.held["a"] = of
	}
	hold("other")
	check.Says(t, a.Check(), "held: a container that waits for an image waits for that one", "another is held")
	hold("i")
	check.Error(t, a.Check())
	w.State = imagepull.Served
	check.Says(t, a.Check(), "Waiting: none of them is Served when a decision was performed", "it has not left")
}
