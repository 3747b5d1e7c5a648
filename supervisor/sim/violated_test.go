package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/tests/check"
)

// inconsistent is an actor of a pod with an invariant that never holds.
type inconsistent struct{ kernel.Behavior[pod.Message] }

func (inconsistent) Check() error { return errors.New("sums: the sum of all") }

// TestViolated: a world tells of an invariant that does not hold, with the actor, its message and the words; also of an
// actor that something is called around.
func TestViolated(t *testing.T) {
	var got []*kernel.Violation
	w := check.Value(New(Config{Hooks: Hooks{Violated: func(v *kernel.Violation) { got = append(got, v) }}}))(t)
	check.Value(w.AddNode(NodeSpec{Configure: func(c *agent.Config) {
		c.Wrap = func(_ *v1.Pod, construct func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
			around := func(string, any, bool) {}
			return node.Wrapped(around, "a pod", func() kernel.Behavior[pod.Message] { return inconsistent{construct()} })
		}
	}}))(t)
	w.Advance(5 * time.Second)
	check.None(t, got, "before there is a pod")
	check.Fatal(t, w.Deploy("app", 1, "registry.test/app:1"))
	w.Advance(5 * time.Second)
	check.Fatal(t, check.That(len(got) > 1, "%d violations", len(got)))
	check.Equal(t, got[0].Message, "Start", "the first is after")
	check.Equal(t, got[1].Message, "pod.Assign", "the second is after")
	check.Equal(t, strings.HasPrefix(got[1].Path, "n00000/pods/"), true, "the path is %s", got[1].Path)
	check.Has(t, got[1].String(), ", after pod.Assign: sums: the sum of all", "it is told as")
}
