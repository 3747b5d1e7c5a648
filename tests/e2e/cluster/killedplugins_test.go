package cluster

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// killsVariable makes TestKilledPlugins go on for so long, as 10m does. Without it, each is killed once.
const killsVariable = "TROUPE_PLUGIN_KILLS"

func killsLength(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(killsVariable)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", killsVariable, err)
	}
	return d
}

// victim is what a turn kills, and then starts again.
type victim struct {
	name        string
	kill, start func()
}

// kills is one run of TestKilledPlugins. Pod keeper has one device all the time; the other one goes from guest to
// guest.
type kills struct {
	*bed
	plugin *plugin
	keeper v1.ContainerStatus // as it was at first
	had    string             // the device of keeper
	guest  string             // the pod that has the other device
	guests int
}

// TestKilledPlugins: plugin, agent and containerd are killed in turns, while pods with devices come, crash and go. No
// pod loses its devices, and none has those of another.
func TestKilledPlugins(t *testing.T) {
	t.Parallel()
	length := killsLength(t)
	b := started(t, "killed-plugins")
	k := &kills{bed: b, plugin: b.samplePlugin(t)}
	b.awaitSample(t, k.plugin)
	b.create(t, b.withSample("keeper", "1"))
	k.keeper = b.awaitPod(t, "keeper", "is ready", ready).Status.ContainerStatuses[0]
	k.invite(t)
	k.had = k.check(t)["keeper"]

	victims := []victim{
		{"plugin", func() { k.plugin.kill(t) }, func() { k.plugin.start(t) }},
		{"agent", func() { b.kill(t) }, func() { b.start(t) }},
		{"containerd", func() { k.containerd(t, b.lab.Kill(t.Context())) }, func() { k.containerd(t, b.lab.Start(t.Context())) }},
	}
	turns := 0
	for began := time.Now(); turns < len(victims) || time.Since(began) < length; turns++ {
		k.turn(t, victims[turns%len(victims)], turns/len(victims)%2 == 0)
		if t.Failed() {
			t.Fatalf("after turn %d, in which %s was killed", turns, victims[turns%len(victims)].name)
		}
	}
	t.Logf("%d turns with %d guests", turns, k.guests)

	b.remove(t, "keeper")
	b.remove(t, k.guest)
	b.awaitGone(t, "keeper")
	b.awaitGone(t, k.guest)
	b.await(t, "no device is given", func() error {
		if left := b.checkpointed(t); len(left) > 0 {
			return fmt.Errorf("the checkpoint has %v", left)
		}
		return nil
	})
	b.awaitSample(t, k.plugin)
	b.create(t, b.withSample("last", "2"))
	b.awaitPod(t, "last", "is ready", ready)
	b.wantSample(t, map[string]int{"last": 2})
}

// turn kills a victim and starts it again. In between the guest's container ends, and the guest is replaced: while the
// victim is dead, or else once the container was restarted, with the device that it had.
func (k *kills) turn(t *testing.T, v victim, early bool) {
	t.Helper()
	was := k.get(t, k.guest)
	pid, err := k.containerPID(t, was)
	if err != nil {
		t.Fatal(err)
	}
	had := k.sampleIn(t, k.guest)
	v.kill()
	self, err := os.FindProcess(pid)
	if err == nil {
		err = self.Kill()
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	if early {
		k.remove(t, k.guest)
		v.start()
	} else {
		v.start()
		k.awaitPod(t, k.guest, "was restarted", func(p *v1.Pod) error {
			if c := p.Status.ContainerStatuses[0]; c.ContainerID == was.Status.ContainerStatuses[0].ContainerID || c.State.Running == nil {
				return errors.New("it was not")
			}
			return ready(p)
		})
		if has := k.sampleIn(t, k.guest); !slices.Equal(has, had) {
			t.Errorf("pod %s was restarted with devices %v and had %v", k.guest, has, had)
		}
		k.check(t)
		k.remove(t, k.guest)
	}
	k.awaitGone(t, k.guest)
	k.invite(t)
	k.check(t)
	t.Logf("%s killed: pod %s had %v", v.name, was.Name, had)
}

// invite makes the next guest and waits until it is ready.
func (k *kills) invite(t *testing.T) {
	t.Helper()
	k.guests++
	k.guest = fmt.Sprintf("guest-%d", k.guests)
	k.create(t, k.withSample(k.guest, "1"))
	k.awaitPod(t, k.guest, "is ready", func(p *v1.Pod) error {
		k.plugin.start(t) // it ends if it was started while there was no agent
		return ready(p)
	})
}

// check holds that keeper has its first container and its first device, and that each device is of one pod.
func (k *kills) check(t *testing.T) (has map[string]string) {
	t.Helper()
	p := k.awaitPod(t, "keeper", "is ready", ready).Status.ContainerStatuses[0]
	if p.ContainerID != k.keeper.ContainerID || p.RestartCount != 0 {
		t.Errorf("keeper: container %s with %d restarts; want %s", p.ContainerID, p.RestartCount, k.keeper.ContainerID)
	}
	has = k.wantSample(t, map[string]int{"keeper": 1, k.guest: 1})
	if k.had != "" && has["keeper"] != k.had {
		t.Errorf("keeper has device %s and had %s", has["keeper"], k.had)
	}
	return has
}

func (k *kills) containerd(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
