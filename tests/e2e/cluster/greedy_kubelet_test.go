package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestGreedyPodsBesideKubelet prints how the kubelet and troupe do with greedy pods, each on a containerd of its own,
// one after the other. The table is in docs/benchmarks.md.
//
//tier:all a measure, run with TROUPE_MEASURE
func TestGreedyPodsBesideKubelet(t *testing.T) {
	lab.Asked(t, "TROUPE_MEASURE", "it measures, and what a kubelet takes has no bar")
	lab.Need(t, lab.MountNFS)
	for _, agent := range []string{"kubelet", "troupe"} {
		t.Run(agent, func(t *testing.T) {
			b := joined(t, "greedy-"+agent, agentOf(t, agent))
			p, n := b.paced(t), lab.Size(10, 40)
			alone := p.plainPods(t, "alone", n)
			for i, a := range greedyAttacks(t) {
				t.Run(a.name, func(t *testing.T) {
					before := b.taken(t)
					stop := b.sample(t)
					names := b.begin(t, fmt.Sprint("greedy-", i), a)
					beside := p.plainPods(t, fmt.Sprint("beside-", i), n)
					outcome := b.outcomeOf(t, names[0], a)
					peak := stop()
					t.Logf("\n| %s | %s | %v | %v | %.2f | %v, %v | %s | %s |", a.name, agent, alone, beside,
						beside.ratio(alone), before, peak, outcome, b.goneAfter(t, names))
				})
			}
		})
	}
}

// soonEnough is how long a greedy pod may take to come to something, or to be gone, before the measure goes on.
const soonEnough = time.Minute

// outcomeOf is what has become of a greedy pod, in the columns of kubectl get pods.
func (b *bed) outcomeOf(t *testing.T, name string, a attack) (outcome string) {
	t.Helper()
	_ = lab.Eventually(t.Context(), soonEnough, "it has come to something", func() error { // some never do
		p := b.get(t, name)
		outcome = shown(p)
		for _, s := range p.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil && w.Message != "" {
				outcome += ": " + w.Message[:min(len(w.Message), 120)]
				return nil
			}
		}
		return a.over(p)
	})
	return outcome
}

// goneAfter deletes pods, by force in the end, and says how long it took.
func (b *bed) goneAfter(t *testing.T, names []string) string {
	t.Helper()
	began := time.Now()
	for _, name := range names {
		b.remove(t, name)
	}
	err := lab.Eventually(t.Context(), soonEnough, "they are gone", func() error {
		for _, name := range names {
			if _, err := b.admin.CoreV1().Pods(b.name).Get(t.Context(), name, metav1.GetOptions{}); err == nil {
				return errors.New(name + " is there")
			}
		}
		return nil
	})
	if err == nil {
		return fmt.Sprintf("%.1f s", time.Since(began).Seconds())
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	for _, name := range names {
		if err := b.admin.CoreV1().Pods(b.name).Delete(t.Context(), name, now); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	return "not within " + soonEnough.String()
}
