package cluster

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// restoredFromBackup: an administrator restores the cluster's store from a backup, and starts the
// control plane again. Versions have gone back, so a watch that goes on from its last one would hear of
// nothing until the store has caught up. The agent notices, and lists again: what was made since the
// backup is taken down, what was deleted since runs again, what ran all the time is not touched, and new
// pods start.
func restoredFromBackup(t *testing.T, own func(*setup)) {
	b := started(t, "restored", onServed, own)
	before := b.create(t, b.pod("before", nil))
	deleted := b.create(t, b.pod("deleted", nil))
	b.awaitPod(t, "before", "is ready", ready)
	b.awaitPod(t, "deleted", "is ready", ready)
	check.Fatal(t, b.plane.Backup(t.Context()))
	kept := b.awaitPod(t, "before", "is ready", ready).Status.ContainerStatuses[0].ContainerID
	b.remove(t, "deleted")
	b.awaitGone(t, "deleted")
	b.create(t, b.pod("since", nil))
	b.awaitPod(t, "since", "is ready", ready)
	for i := range 300 { // so that the store does not catch up soon
		b.configMap(t, "filler", map[string]string{"i": fmt.Sprint(i)})
	}
	check.Fatal(t, b.plane.Restore(t.Context()))
	b.create(t, b.pod("new", nil))
	b.awaitPod(t, "new", "is ready", ready)
	b.await(t, "only what the store has runs", func() error {
		w := b.world(t)
		switch {
		case len(w.Of("since").Running()) > 0:
			return errors.New("the pod that was made since the backup runs on")
		case len(w.Of("deleted").Running()) == 0:
			return errors.New("the pod that was deleted since the backup does not run")
		}
		return nil
	})
	now := b.awaitPod(t, "deleted", "runs again", ready)
	check.Equal(t, now.UID, deleted.UID, "another pod")
	p := b.awaitPod(t, "before", "is ready", ready)
	if c := p.Status.ContainerStatuses[0]; p.UID != before.UID || c.ContainerID != kept || c.RestartCount != 0 {
		t.Errorf("the pod that ran all the time is %s with container %s (%d restarts), want %s with %s",
			p.UID, c.ContainerID, c.RestartCount, before.UID, kept)
	}
	b.awaitNode(t, "is ready", func(n *v1.Node) error {
		c := condition(n, v1.NodeReady)
		return check.That(c.Status == v1.ConditionTrue, "%s: %s", c.Status, c.Message)
	})
}
