package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestEventsOfManyPods starts twelve pods on a node that has status to write all the time: kubectl
// describe shows of each what happened to it, soon after it is Running.
//
//tier:served
func TestEventsOfManyPods(t *testing.T) {
	t.Parallel()
	b := started(t, "events-many", onServed)
	busy := []string{"busy-1", "busy-2"}
	for _, name := range busy {
		b.create(t, b.pod(name, nil))
	}
	for _, name := range busy {
		b.awaitPod(t, name, "is ready", ready)
	}
	b.disturb(t, busy...)
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprint("web-", i))
		b.create(t, b.pod(names[i], nil))
	}
	for _, name := range names {
		b.awaitPod(t, name, "is ready", ready)
		check.Error(t, lab.Eventually(t.Context(), 10*time.Second, "kubectl describe shows how pod "+name+" started", func() error {
			s := b.do(t, nil, "describe", "pod", name)
			_, shown, _ := strings.Cut(s.out, "\nEvents:")
			for _, reason := range []string{"Scheduled", "Pulled", "Created", "Started"} {
				if !strings.Contains(shown, " "+reason+" ") {
					return fmt.Errorf("no %s (exit status %d, %s): %s", reason, s.code, s.err, shown)
				}
			}
			return nil
		}))
	}
}

// TestEventsOfAgentThatEnds tells the agent to end as soon as a pod runs: what happened to the pod is in the
// apiserver all the same.
//
//tier:served
func TestEventsOfAgentThatEnds(t *testing.T) {
	t.Parallel()
	b := started(t, "events-end", onServed)
	b.create(t, b.pod("web", nil))
	b.awaitPod(t, "web", "is ready", ready)
	check.Fatal(t, b.Stop(t.Context()))
	list := check.Value(
		b.admin.CoreV1().Events(b.name).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=web"}))(t)
	var reasons []string
	for i := range list.Items {
		reasons = append(reasons, list.Items[i].Reason)
	}
	for _, reason := range []string{"Pulled", "Created", "Started"} {
		if !slices.Contains(reasons, reason) {
			t.Errorf("there is no event %s: %v", reason, reasons)
		}
	}
	b.start(t) // for what is looked for at the end
}

// disturb says of ready pods that they are not, again whenever the agent has put that right, until the
// test ends: the agent has status to write all the time.
func (b *bed) disturb(t *testing.T, names ...string) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			for ctx.Err() == nil {
				_, err := b.admin.CoreV1().Pods(b.name).Patch(ctx, name, types.StrategicMergePatchType,
					[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`), metav1.PatchOptions{}, "status")
				if err == nil {
					err = lab.Eventually(ctx, patience, "pod "+name+" is shown ready again", func() error {
						p, err := b.admin.CoreV1().Pods(b.name).Get(ctx, name, metav1.GetOptions{})
						if err == nil {
							err = ready(p)
						}
						return err
					})
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
}
