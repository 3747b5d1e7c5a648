package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestPodComesUp(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	w.add(aPod("web").main("log").volume("data"))
	took := w.allUp(10 * time.Second)
	check.AtMost(t, took, 3*time.Second, "the pod came up after")
	w.quiet()
	w.drop("web")
	w.allUp(10 * time.Second)
	w.quiet()
	check.Count(t, w.rt.Calls(simcri.RunPodSandbox), 1, "RunPodSandbox was called %d times")
	check.AtMost(t, w.crashes, 0, "%d actors crashed", w.crashes)
}

func names(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%02d", prefix, i))
	}
	return out
}

// many are n pods, each as of makes it.
func many(prefix string, n int, of func(name string) *spec) (out []*spec) {
	for _, name := range names(prefix, n) {
		out = append(out, of(name))
	}
	return out
}

func TestThirtyPods(t *testing.T) {
	w := parallelNode(t, 2)
	w.run(time.Second)
	w.watch.restartsExpected = false
	w.add(many("p", 30, aPod)...)
	took := w.allUp(time.Minute)
	t.Logf("30 pods in %v", took)
	w.quiet()
	w.drop(names("p", 30)...)
	took = w.allUp(time.Minute)
	t.Logf("gone in %v", took)
	w.quiet()
}
