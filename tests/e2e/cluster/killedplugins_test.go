package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
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

// kills is one run of TestKilledPlugins. Device plugin and DRA driver have two devices each. Pod keeper has one of each
// all the time; the others go from guest to guest.
type kills struct {
	*bed
	plugin *plugin
	driver *draDriver
	keeper v1.ContainerStatus // as it was at first
	had    string             // the devices of keeper
	guest  string             // the pod that has the other devices
	guests int
}

// TestKilledPlugins: device plugin, DRA driver, agent and containerd are killed in turns, while pods with devices come,
// crash and go. No pod loses its devices, and none has those of another.
//
//tier:all a repetition of DevicePlugin, CSI and DRATestDriver
func TestKilledPlugins(t *testing.T) {
	t.Parallel()
	length := killsLength(t)
	b := started(t, "killed-plugins")
	k := &kills{bed: b, plugin: b.samplePlugin(t), driver: b.newTestDriver(t, 2)}
	k.driver.template(t, "one", "red", "mine")
	k.driver.template(t, "both", "red", "mine", "too")
	k.driver.start(t)
	b.awaitSample(t, k.plugin)
	b.create(t, k.withBoth("keeper", "1", "one"))
	k.keeper = b.awaitPod(t, "keeper", "is ready", ready).Status.ContainerStatuses[0]
	k.invite(t)
	k.check(t)

	victims := []victim{
		{"plugin", func() { k.plugin.kill(t) }, func() { k.plugin.start(t) }},
		{"driver", func() { k.driver.kill(t) }, func() { k.driver.start(t) }},
		{"agent", func() { b.kill(t) }, func() { b.start(t) }},
		{"containerd", func() { k.containerd(t, b.lab.Kill(t.Context())) }, func() { k.containerd(t, b.lab.Start(t.Context())) }},
	}
	turns := 0
	for began := time.Now(); turns < len(victims) || time.Since(began) < length; turns++ {
		k.turn(t, victims[turns%len(victims)], (turns+turns/len(victims))%2 == 0)
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
		left := b.checkpointed(t)
		return check.That(len(left) == 0, "the checkpoint has %v", left)
	})
	b.awaitPrepared(t, "no claim is prepared", "map[]")
	b.awaitSample(t, k.plugin)
	b.create(t, k.withBoth("last", "2", "both"))
	k.awaitReady(t, "last")
	b.wantSample(t, map[string]int{"last": 2})
	if has := b.dynamic(t, "last"); strings.Count(has, k.driver.name) != 2 {
		t.Errorf("the last pod has by its claim %q", has)
	}
	b.remove(t, "last") // while its driver is there to take its devices back
	b.awaitGone(t, "last")
}

// withBoth is a pod with devices of the plugin, and with a claim of its own from a template.
func (k *kills) withBoth(name, devices, template string) *v1.Pod {
	p := k.withSample(name, devices)
	claiming(v1.PodResourceClaim{ResourceClaimTemplateName: &template}, "")(&p.Spec)
	return p
}

// awaitReady waits until a pod is ready. A plugin that was started while there was no agent ends, and is started again.
func (k *kills) awaitReady(t *testing.T, name string) {
	t.Helper()
	k.awaitPod(t, name, "is ready", func(p *v1.Pod) error {
		k.plugin.start(t)
		k.driver.start(t)
		return ready(p)
	})
}

// turn kills a victim and starts it again. In between the guest's container ends, and the guest is replaced: while the
// victim is dead, or else once the container was restarted, with the device that it had.
func (k *kills) turn(t *testing.T, v victim, early bool) {
	t.Helper()
	was := k.get(t, k.guest)
	pid := check.Value(k.containerPID(t, was))(t)
	had := k.devices(t, k.guest)
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
		if has := k.devices(t, k.guest); has != had {
			t.Errorf("pod %s was restarted with devices %s and had %s", k.guest, has, had)
		}
		k.check(t)
		k.remove(t, k.guest)
	}
	k.awaitGone(t, k.guest)
	k.invite(t)
	k.check(t)
	t.Logf("%s killed: pod %s had %s", v.name, was.Name, had)
}

// devices are those of a pod: what its container sees, and what monitors are told of its claim.
func (k *kills) devices(t *testing.T, name string) string {
	t.Helper()
	return fmt.Sprintf("%v, %v, %s", k.sampleIn(t, name), k.variables(t, name), k.dynamic(t, name))
}

// invite makes the next guest and waits until it is ready.
func (k *kills) invite(t *testing.T) {
	t.Helper()
	k.guests++
	k.guest = fmt.Sprintf("guest-%d", k.guests)
	k.create(t, k.withBoth(k.guest, "1", "one"))
	k.awaitReady(t, k.guest)
}

// check holds that keeper has its first container and its first devices, and that each device is of one pod.
func (k *kills) check(t *testing.T) {
	t.Helper()
	p := k.awaitPod(t, "keeper", "is ready", ready).Status.ContainerStatuses[0]
	if p.ContainerID != k.keeper.ContainerID || p.RestartCount != 0 {
		t.Errorf("keeper: container %s with %d restarts; want %s", p.ContainerID, p.RestartCount, k.keeper.ContainerID)
	}
	k.wantSample(t, map[string]int{"keeper": 1, k.guest: 1})
	has := k.devices(t, "keeper")
	if k.had == "" {
		k.had = has
	}
	check.Equal(t, has, k.had, "keeper has %s and had %s", has, k.had)
	want := map[string]int{}
	var of []string
	for _, name := range [...]string{"keeper", k.guest} {
		p := k.get(t, name)
		claim := *p.Status.ResourceClaimStatuses[0].ResourceClaimName
		want[claim] = 1
		told := k.dynamic(t, name)
		of = append(of, strings.TrimPrefix(told, claim+" "))
		if seen := k.variables(t, name); told == "" || !slices.Equal(seen, variablesOf(claim, "red", "mine")) {
			t.Errorf("pod %s with %q sees %v", name, told, seen)
		}
	}
	if of[0] == of[1] {
		t.Errorf("keeper and %s both have %s", k.guest, of[0])
	}
	if got, err := k.prepared(); err != nil || !maps.Equal(got, want) {
		t.Errorf("prepared are %v (%v), want %v", got, err, want)
	}
}

func (k *kills) containerd(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
