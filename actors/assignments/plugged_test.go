package assignments_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	decide "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

const gpu v1.ResourceName = "example.com/gpu"

// plugin plays the device plugins and their checkpoint. It answers when the test says so.
type plugin struct {
	port.DevicePlugins
	r       *rig
	answers *actortest.Answers
	prefers []string
	// err and answer are what it answers, loadErr and saveErr are errors of the checkpoint's disk.
	err, loadErr, saveErr error
	answer                []byte
	file                  []byte
}

func plugged(r *rig) {
	r.plugin = &plugin{r: r, answers: r.NewAnswers()}
	r.plugin.answers.Silent, r.quiet = true, true
}

// Prefer implements port.DevicePlugins.
func (p *plugin) Prefer(_ context.Context, _ port.DevicePlugin, q decide.Question, done func([]string, error)) {
	p.r.Say("plugin: prefer %d of %v", q.Size, q.Available)
	p.answers.Give(func() { done(p.prefers, nil) })
}

// Allocate implements port.DevicePlugins.
func (p *plugin) Allocate(_ context.Context, _ port.DevicePlugin, ids []string, done func([]byte, error)) {
	p.r.Say("plugin: allocate %v", ids)
	p.answers.Give(func() { done(p.answer, p.err) })
}

// Load implements port.Checkpoints.
func (p *plugin) Load(_ context.Context, _ string, done func([]byte, error)) { done(p.file, p.loadErr) }

// Save implements port.Checkpoints.
func (p *plugin) Save(_ context.Context, _ string, data []byte, done func(error)) {
	if p.saveErr == nil {
		p.file = data
	}
	done(p.saveErr)
}

// SetAside implements port.Checkpoints.
func (p *plugin) SetAside(_ context.Context, _ string, done func(string, error)) {
	p.r.Say("disk: set aside")
	p.file, p.loadErr = nil, nil
	done("elsewhere", nil)
}

// has are the devices that the checkpoint has, by pod.
func (p *plugin) has() string {
	s, err := devicestate.Parse(p.file)
	p.r.Must(err)
	var out []string
	for uid, containers := range s.Grants() { // order-free: sorted below
		for _, g := range containers["c"] {
			out = append(out, fmt.Sprintf("%s %v", uid, g.All()))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// offers says that there is a plugin with healthy GPUs; none: it is waited for.
func (r *rig) offers(o decide.Options, ids ...string) {
	g := &decide.Resource{Options: o, Served: len(ids) > 0, Awaited: len(ids) == 0}
	for _, id := range ids {
		g.Devices = append(g.Devices, decide.Device{ID: id, Healthy: true})
	}
	r.tells(assignments.Plugins{Snapshot: devices.Snapshot{Inventory: decide.Inventory{gpu: g}}})
	r.disk()
}

// wants is a pod with a container of so many GPUs.
func wants(uid types.UID, n string) assignments.Place {
	p := asks(uid, "500m")
	p.Pod.Spec.Containers[0].Resources.Limits[gpu] = resource.MustParse(n)
	return p
}

func TestDevices(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.offers(decide.Options{}, "a", "b")
	r.tells(wants("one", "1"), wants("two", "1"), wants("three", "1"))
	r.want("one call after the other, and nothing is given twice", "plugin: allocate [a]",
		"pods: three UnexpectedAdmissionError; shared 0-3")
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.want("one has its device when it is in the file", "pods: one c devices; shared 0-3", "plugin: allocate [b]")
	check.Count(t, r.plugin.has(), "one [a]", "the checkpoint has %s; the plugin has not answered for two")
	r.plugin.err = errors.New("no")
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.want("two is refused", "pods: two UnexpectedAdmissionError; shared 0-3")
	r.plugin.err = nil
	r.tells(wants("four", "1"))
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.want("its device is free", "plugin: allocate [b]", "pods: four c devices; shared 0-3")
	r.tells(assignments.Release{UID: "one"}, wants("four", "1"))
	check.Equal(t, r.plugin.has(), "four [b]", "the checkpoint has")
}

// TestPreferredDevices: a plugin is asked, and its answer counts as far as it can.
func TestPreferredDevices(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.plugin.prefers = []string{"c", "z"}
	r.offers(decide.Options{Preferred: true}, "a", "b", "c")
	r.tells(wants("one", "1"))
	r.want("it is asked", "plugin: prefer 1 of [a b c]")
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.want("and gets what it prefers", "plugin: allocate [c]")
}

// TestNobodysDevices: without a cluster, a pod that asks for a resource that no plugin has served waits for a plugin, and is
// refused if none comes. In a cluster an operator may have added the resource.
func TestNobodysDevices(t *testing.T) {
	nothing := assignments.Plugins{}
	r := newRig(t, plugged)
	r.disk()
	r.tells(nothing, wants("one", "1"))
	r.want("in a cluster", "pods: one; shared 0-3")
	for _, comes := range []bool{false, true} {
		r := newRig(t, plugged, func(r *rig) { r.standalone = true })
		r.disk()
		r.tells(nothing, asks("other", "500m"), wants("none", "0"), wants("one", "1"))
		r.want("others begin", "pods: other; shared 0-3", "pods: none; shared 0-3")
		if comes {
			r.offers(decide.Options{}, "a")
			r.plugin.answers.Release(0)
			r.Advance(time.Millisecond)
			r.want("it comes", "plugin: allocate [a]", "pods: one c devices; shared 0-3")
			continue
		}
		r.Advance(devices.Patience - time.Second)
		r.want("it waits")
		r.Advance(2 * time.Second)
		r.want("nobody comes", "pods: one UnexpectedAdmissionError; shared 0-3")
		before := r.version
		r.offers(decide.Options{}, "a")
		r.disk()
		r.tells(assignments.Living{Pods: map[types.UID]bool{"other": true, "none": true, "one": true}})
		if r.version == before {
			t.Error("a plugin has come, and pods that were refused are not tried again")
		}
		again := wants("old", "1")
		again.Runs = true
		r.tells(again)
		r.want("one that runs goes on", "pods: old c unknown; shared 0-3")
	}
}

// TestAwaitedPlugin: pods wait for a plugin that is not there yet, and others do not. They do not wait for ever.
func TestAwaitedPlugin(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.offers(decide.Options{})
	r.tells(wants("one", "1"), asks("other", "500m"))
	r.want("the other does not wait", "pods: other; shared 0-3")
	r.offers(decide.Options{}, "a")
	r.want("the plugin is there", "plugin: allocate [a]")
	r.plugin.err = &port.Error{Kind: port.Unavailable}
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.plugin.err = nil
	r.want("it dies in the middle")
	r.Advance(2 * time.Second)
	r.want("it is asked again", "plugin: allocate [a]")
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.offers(decide.Options{})
	r.Forget()
	r.tells(wants("late", "1"))
	r.Advance(devices.Patience / 2)
	r.want("it waits")
	r.Advance(devices.Patience)
	r.want("and is refused", "pods: late UnexpectedAdmissionError; shared 0-3")
}

// TestSomeWaitAndOthersAreServed: a pod that waits for a plugin is not forgotten when another plugin is asked.
func TestSomeWaitAndOthersAreServed(t *testing.T) {
	const other v1.ResourceName = "example.com/dongle"
	r := newRig(t, plugged)
	r.disk()
	a := &decide.Resource{Served: true, Devices: []decide.Device{{ID: "x", Healthy: true}}}
	r.tells(assignments.Plugins{Snapshot: devices.Snapshot{Inventory: decide.Inventory{gpu: {Awaited: true}, other: a}}})
	m := wants("served", "1")
	m.Pod.Spec.Containers[0].Resources.Limits[other] = resource.MustParse("1")
	delete(m.Pod.Spec.Containers[0].Resources.Limits, gpu)
	r.tells(wants("waits", "1"), m)
	r.want("the other plugin is asked", "plugin: allocate [x]")
	r.tells(assignments.Plugins{Snapshot: devices.Snapshot{Inventory: decide.Inventory{
		gpu: {Served: true, Devices: []decide.Device{{ID: "a", Healthy: true}}}, other: a,
	}}})
	r.disk()
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.want("the first is asked for the one that waits", "plugin: allocate [a]", "pods: served c devices; shared 0-3")
}

// TestRefusedIsTriedAgain: a pod that its plugin refused may ask again a minute later, though nothing became free.
func TestRefusedIsTriedAgain(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.offers(decide.Options{}, "a")
	r.plugin.err = errors.New("no")
	r.tells(wants("one", "1"))
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.want("it is refused", "plugin: allocate [a]", "pods: one UnexpectedAdmissionError; shared 0-3")
	refused := r.version
	r.Advance(time.Minute)
	if r.version == refused {
		t.Error("nobody is told that it may ask again")
	}
	again := r.version
	r.Advance(time.Hour)
	check.Equal(t, r.version, again, "it goes on, though nobody was refused since")
}

// TestTwoRefused: pods that their plugin refuses do not have each other tried at once.
func TestTwoRefused(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.offers(decide.Options{}, "a", "b")
	r.plugin.err = errors.New("no")
	before := r.version
	for _, uid := range []types.UID{"one", "two"} {
		r.tells(wants(uid, "1"))
		r.plugin.answers.Release(0)
		r.Advance(time.Millisecond)
	}
	r.Forget()
	check.Equal(t, r.version, before, "the version is %d, and was %d", r.version, before)
}

// TestDevicesAfterARestart: what pods have is in the file, and their plugin is not needed.
func TestDevicesAfterARestart(t *testing.T) {
	r := newRig(t, plugged, func(r *rig) {
		r.plugin.file = devicestate.Format(nil, devicestate.Grants{"one": {"c": {{Resource: gpu, IDs: map[int64][]string{0: {"a"}}}}}})
	})
	r.disk()
	r.offers(decide.Options{})
	r.tells(wants("one", "1"))
	r.want("it has its device", "pods: one c devices; shared 0-3")
}

// TestRejectedAfterARestart: a pod whose device has become unhealthy is refused, and what it had is free when nothing of it
// runs any more.
func TestRejectedAfterARestart(t *testing.T) {
	r := newRig(t, plugged, func(r *rig) {
		r.file = (&cpus.File{Policy: "static", Shared: cpuset.New(0, 2, 3), Own: cpus.State{"one": {"c": cpuset.New(1)}}}).Format()
		r.plugin.file = devicestate.Format(nil, devicestate.Grants{"one": {"c": {{Resource: gpu, IDs: map[int64][]string{0: {"a"}}}}}})
	})
	r.disk()
	r.tells(assignments.Plugins{Snapshot: devices.Snapshot{Inventory: decide.Inventory{gpu: {Served: true, Devices: []decide.Device{{ID: "a"}}}}}})
	m := asks("one", "1")
	m.Pod.Spec.Containers[0].Resources.Limits[gpu] = resource.MustParse("1")
	r.tells(m)
	r.want("it is refused", "pods: one UnexpectedAdmissionError; shared 0,2-3")
	check.Count(t, r.plugin.has(), "one [a]", "the checkpoint has %s, and its containers may still run")
	r.tells(assignments.Release{UID: "one"})
	r.disk()
	check.Equal(t, r.plugin.has(), "", "the checkpoint has")
	if s, err := cpus.Parse(r.file); err != nil || len(s.Own) > 0 {
		t.Errorf("the state file has %v, %v", s, err)
	}
}

// TestAPodThatGoesWhileItsPluginIsAsked gives its devices back.
func TestAPodThatGoesWhileItsPluginIsAsked(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.offers(decide.Options{}, "a")
	r.tells(wants("one", "1"), assignments.Release{UID: "one"})
	r.Forget()
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.want("nobody is told of it")
	r.tells(wants("two", "1"))
	r.want("its device is free", "plugin: allocate [a]")
}

// TestPodsBeforeThePlugins: a pod that needs devices waits until it is known which there are. Resources are not forgotten
// when devices restarts.
func TestPodsBeforeThePlugins(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.tells(wants("one", "1"), asks("other", "500m"))
	r.want("they wait")
	r.offers(decide.Options{}, "a")
	r.want("they are decided", "plugin: allocate [a]", "pods: other; shared 0-3")
	r.tells(assignments.Plugins{Snapshot: devices.Snapshot{Inventory: decide.Inventory{}}}, wants("two", "1"))
	r.want("it waits")
}

// TestDevicesThatNobodyKnows: a pod that runs keeps running when the checkpoint is lost. Its container can't be created once
// more, and nothing of others is taken for it.
func TestDevicesThatNobodyKnows(t *testing.T) {
	r := newRig(t, plugged, func(r *rig) { r.plugin.file = []byte("rubbish") })
	r.disk()
	r.offers(decide.Options{}, "a")
	m := wants("one", "1")
	m.Runs = true
	r.tells(m)
	r.want("it is admitted, and no plugin is told", "pods: one c unknown; shared 0-3")
}

// TestDevicesOfWhatIsDown: a pod has a sandbox, and nothing of its container lives. What the checkpoint has lost is
// chosen anew, once its plugin is there. If it can't be, the pod goes on, and its container waits.
func TestDevicesOfWhatIsDown(t *testing.T) {
	down := func(uid types.UID) assignments.Place {
		m := ran(wants(uid, "1"))
		m.Down = []string{"c"}
		return m
	}
	r := newRig(t, plugged, func(r *rig) { r.plugin.file = []byte("rubbish") })
	r.disk()
	r.offers(decide.Options{})
	r.tells(down("one"))
	r.want("it waits for its plugin")
	r.tells(ran(wants("one", "1")), down("one"))
	r.disk()
	r.want("what it asks for last counts", "pods: one c unknown; shared 0-3")
	r.offers(decide.Options{}, "a", "b")
	r.want("the plugin is there", "plugin: allocate [a]")
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.disk()
	r.want("it has a device", "pods: one c devices; shared 0-3")
	r.tells(down("two"))
	r.want("another one", "plugin: allocate [b]")
	r.answers(errors.New("no"))
	r.want("it is not refused", "pods: two c unknown; shared 0-3")
	check.Equal(t, r.plugin.has(), "one [a]", "the checkpoint has")
	r.plugin.err = nil
	r.tells(wants("three", "1"), down("four"))
	r.answers(nil)
	r.want("the device of the one that has it not is free, and then there is none",
		"plugin: allocate [b]", "pods: four c unknown; shared 0-3", "pods: three c devices; shared 0-3")
}

// TestMoveWhileThePluginIsAsked: a pod that runs waits for devices, and then its containers have left CPUs, or it asks
// for others. The answer to that is none to the question for devices: another version has pods ask it again.
func TestMoveWhileThePluginIsAsked(t *testing.T) {
	for name, move := range map[string]func(*assignments.Place){
		"it has left CPUs": func(m *assignments.Place) { m.On = map[string]cpuset.CPUSet{} },
		"it is resized":    func(m *assignments.Place) { m.Resize = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, plugged, func(r *rig) { r.rules.Resizes = true })
			r.disk()
			r.offers(decide.Options{}, "a")
			m := ran(wants("one", "1"))
			m.Down = []string{"c"}
			r.tells(m)
			r.want("its plugin is asked", "plugin: allocate [a]")
			before := r.version
			m.Down = nil
			move(&m)
			r.tells(m)
			r.disk()
			r.Forget()
			if r.version == before {
				t.Error("pods do not ask for devices again")
			}
		})
	}
}

// TestHealthOfDevices: pods are told how their devices are, also if nothing can be written.
func TestHealthOfDevices(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.offers(decide.Options{}, "a", "b")
	r.tells(wants("one", "1"))
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	health := func(what string, want v1.ResourceHealthStatus) {
		t.Helper()
		got := r.health["one"]["c"]
		if len(got) != 1 || got[0].Name != gpu || len(got[0].Resources) != 1 || got[0].Resources[0].Health != want {
			t.Errorf("%s: %v, want %s", what, got, want)
		}
	}
	health("given", v1.ResourceHealthStatusHealthy)
	r.plugin.saveErr = errors.New("no space left")
	r.tells(assignments.Plugins{Snapshot: devices.Snapshot{Inventory: decide.Inventory{gpu: {
		Served: true, Devices: []decide.Device{{ID: "a"}, {ID: "b", Healthy: true}},
	}}}})
	health("it fails", v1.ResourceHealthStatusUnhealthy)
	r.tells(assignments.Plugins{Snapshot: devices.Snapshot{Inventory: decide.Inventory{gpu: {
		Devices: []decide.Device{{ID: "a"}, {ID: "b"}},
	}}}})
	health("its plugin has gone", v1.ResourceHealthStatusUnknown)
	r.plugin.saveErr = nil
	r.tells(assignments.Release{UID: "one"}, assignments.Living{})
	r.Advance(time.Minute)
	check.Equal(t, len(r.health), 0, "pods that are gone have %v", r.health)
}
