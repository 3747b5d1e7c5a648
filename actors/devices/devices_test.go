package devices_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	decide "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

const gpu v1.ResourceName = "example.com/gpu"

// rig is the actor alone on a virtual clock. The rig plays the device plugins, and those who are told of them.
type rig struct {
	*actortest.Rig
	port.DevicePlugins
	actor   *actortest.Actor[devices.Message]
	event   func(port.DevicePlugin)
	closed  func(error)
	list    func([]decide.Device)
	ended   func(error)
	watched int
	// watches are the last ones, by endpoint.
	watches map[string]context.Context
}

func newRig(t *testing.T, known ...v1.ResourceName) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t), watches: map[string]context.Context{}}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[devices.Message]{
		Name: "devices", MailboxLimit: 8, Policy: kernel.ForPods, New: devices.New(&devices.Deps{
			Plugins: r, Known: known, Tell: r.told, Backoff: backoff.Policy{Base: time.Second, Max: time.Minute},
		}),
	})
	r.Advance(time.Millisecond)
	return r
}

func (r *rig) told(s devices.Snapshot) {
	var out []string
	for _, name := range s.Inventory.Names() {
		all, healthy := s.Inventory.Count(name)
		text := fmt.Sprintf("%s %d of %d", name, healthy, all)
		if s.Inventory[name].Awaited {
			text += " awaited"
		}
		if s.Inventory[name].Forgotten {
			text += " forgotten"
		}
		if _, is := s.Plugins[name]; is != s.Inventory[name].Served {
			r.T.Errorf("%s: plugin %t, served %t", name, is, s.Inventory[name].Served)
		}
		out = append(out, text)
	}
	r.Say("told: %s", strings.Join(out, ", "))
}

// Registrations implements port.DevicePlugins.
func (r *rig) Registrations(_ context.Context, event func(port.DevicePlugin), done func(error)) {
	r.event, r.closed = event, done
}

// Devices implements port.DevicePlugins.
func (r *rig) Devices(c context.Context, p port.DevicePlugin, event func([]decide.Device), done func(error)) {
	r.list, r.ended, r.watches[p.Endpoint] = event, done, c
	r.watched++
}

// PreStart implements port.DevicePlugins.
func (r *rig) PreStart(_ context.Context, p port.DevicePlugin, ids []string, done func(error)) {
	r.Say("%s: start %v", p.Resource, ids)
	done(nil)
}

// register has a plugin register, and list its devices.
func (r *rig) register(o decide.Options, ids ...string) {
	r.event(port.DevicePlugin{Resource: gpu, Endpoint: "gpu.sock", Options: o})
	r.Advance(time.Millisecond)
	r.lister()(ids...)
}

// lister is how the plugin that was watched last lists its devices.
func (r *rig) lister() func(ids ...string) {
	list := r.list
	return func(ids ...string) {
		var all []decide.Device
		for _, id := range ids {
			all = append(all, decide.Device{ID: id, Healthy: true})
		}
		list(all)
		r.Advance(time.Millisecond)
	}
}

// another has a plugin register at an endpoint. It gives how it lists its devices, and how it ends.
func (r *rig) another(endpoint string) (list func(ids ...string), end func()) {
	r.event(port.DevicePlugin{Resource: gpu, Endpoint: endpoint})
	r.Advance(time.Millisecond)
	ended := r.ended
	return r.lister(), func() {
		ended(errors.New("gone"))
		r.Advance(time.Millisecond)
	}
}

func (r *rig) want(what string, want ...string) {
	r.T.Helper()
	r.Settle()
	r.WantByListener(what, want...)
}

func (r *rig) start() {
	r.actor.Tell(devices.PreStart{PreStart: decide.PreStart{Resource: gpu, IDs: []string{"a"}}, Reply: func(err error) {
		r.Say("may start: %t", err == nil)
	}})
	r.Advance(time.Millisecond)
}

// starts looks at nothing but what the start of a container is told.
func (r *rig) starts(when, want string) {
	r.Forget()
	r.start()
	r.want(when, want)
}

func TestPluginLives(t *testing.T) {
	r := newRig(t)
	r.want("nothing is there", "told: ")
	r.register(decide.Options{PreStart: true}, "a", "b")
	r.want("it registers", "told: example.com/gpu 0 of 0 awaited", "told: example.com/gpu 2 of 2")
	r.start()
	r.want("it wants to know", "example.com/gpu: start [a]", "may start: true")
	r.ended(errors.New("gone"))
	r.Advance(time.Millisecond)
	r.want("it is gone", "told: example.com/gpu 0 of 2 awaited")
	r.start()
	r.want("it is waited for", "may start: false")
	r.Advance(devices.Patience)
	r.want("pods are refused now", "told: example.com/gpu 0 of 2")
	r.start()
	r.want("it may have to clear them", "may start: false")
	r.Advance(devices.ForgetAfter)
	r.want("they are not shown any more", "told: example.com/gpu 0 of 0 forgotten")
	r.start()
	r.want("still", "may start: false")
	r.register(decide.Options{}, "a")
	r.want("it comes back", "told: example.com/gpu 0 of 0 awaited", "told: example.com/gpu 1 of 1")
	r.start()
	r.want("it does not want to know", "may start: true")
}

// TestPluginRegistersAgain: what the watch before says does not count, and the plugin is not given up.
func TestPluginRegistersAgain(t *testing.T) {
	r := newRig(t)
	r.register(decide.Options{}, "a")
	list, ended := r.list, r.ended
	r.Forget()
	r.register(decide.Options{}, "b", "c")
	r.want("there are others", "told: example.com/gpu 0 of 1 awaited", "told: example.com/gpu 2 of 2")
	list(nil)
	ended(errors.New("late"))
	r.Advance(devices.Patience)
	r.want("nothing changes")
	r.event(port.DevicePlugin{Resource: gpu, Endpoint: "other.sock", Gone: true})
	r.Advance(time.Millisecond)
	r.want("another socket is gone")
	r.event(port.DevicePlugin{Resource: gpu, Endpoint: "gpu.sock", Gone: true})
	r.Advance(time.Millisecond)
	r.want("its own is gone", "told: example.com/gpu 0 of 2 awaited")
}

// TestPluginThatRepeatsItself: nobody is told, and the log says nothing, of a list that is as the last one.
func TestPluginThatRepeatsItself(t *testing.T) {
	r := newRig(t)
	r.register(decide.Options{}, "a", "b")
	list := r.lister()
	r.Forget()
	for range 100 {
		list("a", "b")
	}
	r.want("it says the same")
	check.Equal(t, r.Logged("listed its devices"), 1, "log lines")
	for _, said := range [][]decide.Device{
		{{ID: "a", Healthy: true}, {ID: "b"}}, {{ID: "a", Healthy: true, Nodes: []int64{1}}, {ID: "b"}}, {{ID: "a", Healthy: true}},
	} {
		for range 2 {
			r.list(said)
			r.Advance(time.Millisecond)
		}
	}
	r.want("what changes is told once", "told: example.com/gpu 1 of 2", "told: example.com/gpu 1 of 2",
		"told: example.com/gpu 1 of 1")
}

// TestPluginWhoseListEnds: it is not asked for its devices again before it registers again, also if it has listed none.
func TestPluginWhoseListEnds(t *testing.T) {
	r := newRig(t)
	r.register(decide.Options{}, "a")
	r.Forget()
	r.ended(errors.New("the driver is gone"))
	r.Advance(time.Millisecond)
	r.want("its list fails", "told: example.com/gpu 0 of 1 awaited")
	r.Advance(devices.ForgetAfter + time.Second)
	r.want("it is given up", "told: example.com/gpu 0 of 1", "told: example.com/gpu 0 of 0 forgotten")
	if r.watched != 1 {
		t.Errorf("it was asked %d times", r.watched)
	}
	r.register(decide.Options{}, "a")
	r.want("it registers again", "told: example.com/gpu 0 of 0 awaited", "told: example.com/gpu 1 of 1")
	r.event(port.DevicePlugin{Resource: gpu, Endpoint: "gpu.sock"})
	r.Advance(time.Millisecond)
	r.ended(errors.New("the driver is gone"))
	r.Advance(devices.Patience / 2)
	r.want("its list fails at once", "told: example.com/gpu 0 of 1 awaited", "told: example.com/gpu 0 of 1 awaited")
	if r.watched != 3 {
		t.Errorf("it was asked %d times", r.watched)
	}
	r.event(port.DevicePlugin{Resource: gpu, Endpoint: "gpu.sock", Gone: true})
	r.Advance(time.Millisecond)
	r.want("it unregisters, and is gone already")
}

// TestPluginThatNeedNotKnow: a container does not wait for a plugin that does not want to be told of its start.
func TestPluginThatNeedNotKnow(t *testing.T) {
	r := newRig(t, gpu)
	r.starts("nobody knows what it wants", "may start: false")
	r.register(decide.Options{}, "a")
	r.ended(errors.New("gone"))
	r.Advance(time.Millisecond)
	r.starts("it is known", "may start: true")
	r.Advance(devices.ForgetAfter)
	r.starts("it is forgotten", "may start: true")
}

// TestPluginNobodyKnows: after a start of the agent a container waits a minute for a plugin that may want to know.
func TestPluginNobodyKnows(t *testing.T) {
	r := newRig(t, gpu)
	r.starts("nobody knows what it wants", "may start: false")
	r.Advance(devices.Patience)
	r.starts("it did not come", "may start: true")
}

// TestPluginThatHangs: one that registers again and never lists is forgotten, too.
func TestPluginThatHangs(t *testing.T) {
	r := newRig(t)
	r.register(decide.Options{}, "a")
	r.Forget()
	r.event(port.DevicePlugin{Resource: gpu, Endpoint: "gpu.sock"})
	r.Advance(devices.ForgetAfter + time.Second)
	r.want("its devices are shown no more", "told: example.com/gpu 0 of 1 awaited", "told: example.com/gpu 0 of 1",
		"told: example.com/gpu 0 of 0 forgotten")
}

// TestKnownPlugins: those that served this node before are waited for, and then not.
func TestKnownPlugins(t *testing.T) {
	r := newRig(t, gpu)
	r.want("it is waited for", "told: example.com/gpu 0 of 0 awaited")
	r.Advance(devices.Patience)
	r.want("it did not come", "told: example.com/gpu 0 of 0")
	r.Advance(devices.ForgetAfter)
	r.want("the next agent need not know it", "told: example.com/gpu 0 of 0 forgotten")
}

// TestLostMessages: the watches are opened again, and no plugin is gone meanwhile.
func TestLostMessages(t *testing.T) {
	r := newRig(t)
	r.register(decide.Options{}, "a")
	watch := r.event
	for range 9 {
		r.actor.Tell(devices.PreStart{Reply: func(error) {}})
	}
	r.Advance(time.Millisecond)
	r.Forget()
	watch(port.DevicePlugin{Resource: "example.com/late"})
	r.register(decide.Options{}, "a", "b")
	r.want("there is one more", "told: example.com/gpu 2 of 2")
	r.register(decide.Options{}, "a")
	r.want("it registers anew", "told: example.com/gpu 0 of 2 awaited", "told: example.com/gpu 1 of 1")
}

// TestSilentPlugin: one that registers, and never lists its devices, is given up.
func TestSilentPlugin(t *testing.T) {
	r := newRig(t)
	r.Forget()
	r.event(port.DevicePlugin{Resource: gpu})
	r.Advance(time.Millisecond)
	r.want("it is waited for", "told: example.com/gpu 0 of 0 awaited")
	r.Advance(devices.Patience)
	r.want("not for ever", "told: example.com/gpu 0 of 0")
}

// TestNoSocket: the sockets are tried again, and plugins are told again.
func TestNoSocket(t *testing.T) {
	r := newRig(t)
	r.register(decide.Options{}, "a")
	r.Forget()
	event := r.event
	r.closed(errors.New("no space left"))
	r.Advance(2 * time.Second)
	event(port.DevicePlugin{Resource: "example.com/late"})
	r.Advance(time.Millisecond)
	r.want("the old watch says nothing any more")
	r.register(decide.Options{}, "a")
	r.want("the new one does", "told: example.com/gpu 0 of 1 awaited", "told: example.com/gpu 1 of 1")
}

// TestRollout: a newer plugin of a resource takes over with its first list, and hands back when it ends. The devices are
// healthy all the time.
func TestRollout(t *testing.T) {
	r := newRig(t)
	listOld, endOld := r.another("old.sock")
	listOld("a", "b")
	r.Forget()
	listNew, endNew := r.another("new.sock")
	r.want("a newer one registers")
	listNew("a", "b", "c")
	r.want("it takes over", "told: example.com/gpu 3 of 3")
	listOld("a")
	r.want("the older one is not in charge")
	endNew()
	r.want("the newer one ends", "told: example.com/gpu 1 of 1")
	listNew, _ = r.another("new.sock")
	endOld()
	r.want("the older one ends before the newer one has listed", "told: example.com/gpu 0 of 1 awaited")
	listNew("a", "b")
	r.want("it lists", "told: example.com/gpu 2 of 2")
	_, endThird := r.another("third.sock")
	endThird()
	r.want("one comes and goes")
	r.Advance(devices.ForgetAfter)
	r.want("nobody is given up")
}

// TestTwoPluginsJoin: the one that lists first is in charge, until the newer one lists.
func TestTwoPluginsJoin(t *testing.T) {
	r := newRig(t)
	listOld, _ := r.another("old.sock")
	r.Forget()
	listNew, _ := r.another("new.sock")
	r.want("both join", "told: example.com/gpu 0 of 0 awaited")
	listOld("a")
	r.want("the older one lists", "told: example.com/gpu 1 of 1")
	listNew("a", "b")
	r.want("the newer one lists", "told: example.com/gpu 2 of 2")
	list, _ := r.another("new.sock")
	r.want("it registers again", "told: example.com/gpu 1 of 1")
	listNew("a", "b")
	r.want("its watch from before says nothing")
	list("a", "b", "c")
	r.want("it lists again", "told: example.com/gpu 3 of 3")
	gone := func(endpoint string) {
		r.event(port.DevicePlugin{Resource: gpu, Endpoint: endpoint, Gone: true})
		r.Advance(time.Millisecond)
	}
	gone("other.sock")
	r.want("a third one is gone")
	gone("new.sock")
	r.want("it unregisters", "told: example.com/gpu 1 of 1")
	gone("old.sock")
	r.want("so does the older one", "told: example.com/gpu 0 of 1 awaited")
}

// TestLostMessagesOfTwo: both are listened to anew, and the one in charge stays so.
func TestLostMessagesOfTwo(t *testing.T) {
	r := newRig(t)
	for _, of := range []string{"old.sock", "new.sock"} {
		list, _ := r.another(of)
		list("a", of)
	}
	for range 9 {
		r.actor.Tell(devices.PreStart{Reply: func(error) {}})
	}
	r.Advance(time.Millisecond)
	r.Forget()
	listOld, _ := r.another("old.sock")
	listOld("a")
	listNew, endNew := r.another("new.sock")
	r.want("they are told of again")
	listNew("a", "b", "c")
	r.want("it is in charge", "told: example.com/gpu 3 of 3")
	endNew()
	r.want("the other one has its place", "told: example.com/gpu 1 of 1")
}

// TestManyPluginsOfAResource: the oldest is not listened to any more.
func TestManyPluginsOfAResource(t *testing.T) {
	r := newRig(t)
	for n := range 9 {
		list, _ := r.another(fmt.Sprint(n))
		list("a")
	}
	for n, want := range map[string]bool{"0": true, "1": false, "8": false} {
		if ended := r.watches[n].Err() != nil; ended != want {
			t.Errorf("the watch of %s has ended: %t", n, ended)
		}
	}
}
