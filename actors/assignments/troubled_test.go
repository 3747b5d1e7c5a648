package assignments_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/assignments"
	decide "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

const nic v1.ResourceName = "example.com/nic"

// had is a checkpoint in which the container c of pod one has device a. answer is what the plugin has said.
func had(answer []byte) []byte {
	return devicestate.Format(nil, devicestate.Grants{
		"one": {"c": {{Resource: gpu, IDs: map[int64][]string{0: {"a"}}, Response: answer}}},
	})
}

// ran is the request for a pod that runs already.
func ran(m assignments.Place) assignments.Place {
	m.Runs = true
	return m
}

// answers lets plugins answer the oldest call.
func (r *rig) answers(err error) {
	r.plugin.err = err
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
}

// offersBoth says that a plugin with a GPU and one with a NIC are there.
func (r *rig) offersBoth() {
	inv := decide.Inventory{}
	for name, id := range map[v1.ResourceName]string{gpu: "agpu", nic: "anic"} { // order-free: a map again
		inv[name] = &decide.Resource{Served: true, Devices: []decide.Device{{ID: id, Healthy: true}}}
	}
	r.tells(assignments.Plugins{Snapshot: devices.Snapshot{Inventory: inv}})
	r.disk()
}

func wantsBoth(uid types.UID) assignments.Place {
	m := wants(uid, "1")
	m.Pod.Spec.Containers[0].Resources.Limits[nic] = resource.MustParse("1")
	return m
}

// TestNodesThatAPluginInvents: a node of a plugin that no machine has does no harm.
func TestNodesThatAPluginInvents(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	inv := decide.Inventory{gpu: {Served: true, Devices: []decide.Device{{ID: "a", Healthy: true, Nodes: []int64{64}}}}}
	r.tells(assignments.Plugins{Snapshot: devices.Snapshot{Inventory: inv}})
	r.disk()
	r.tells(wants("one", "1"))
	r.want("it gets its device", "plugin: allocate [a]")
}

// TestACheckpointThatCantBeRead is set aside. Pods without devices do not wait for it.
func TestACheckpointThatCantBeRead(t *testing.T) {
	r := newRig(t, plugged, func(r *rig) { r.plugin.loadErr = errors.New("is a directory") })
	r.disk()
	r.offers(decide.Options{}, "a")
	r.tells(asks("ordinary", "500m"), ran(wants("one", "1")), wants("two", "1"))
	r.disk()
	r.want("all are decided", "disk: set aside", "pods: ordinary; shared 0-3", "pods: one c unknown; shared 0-3",
		"plugin: allocate [a]")
	r.answers(nil)
	r.disk()
	check.Equal(t, r.plugin.has(), "two [a]", "the checkpoint has")
	if r.Logged("is a directory", "elsewhere", "are not known") != 1 {
		t.Errorf("the log says\n%s", &r.Log)
	}
}

// TestADiskThatDoesNotAnswer says nothing of the checkpoint.
func TestADiskThatDoesNotAnswer(t *testing.T) {
	r := newRig(t, plugged, func(r *rig) {
		r.plugin.file, r.plugin.loadErr = had(nil), &port.Error{Kind: port.Deadline}
	})
	r.disk()
	r.offers(decide.Options{}, "a")
	r.tells(ran(wants("one", "1")))
	r.want("it waits")
	r.plugin.loadErr = nil
	r.Advance(5 * time.Second)
	r.disk()
	r.want("it is read", "pods: one c devices; shared 0-3")
}

// TestLongAnswers: a plugin may not fill the checkpoint.
func TestLongAnswers(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.offers(decide.Options{}, "a")
	r.plugin.answer = slices.Repeat([]byte{0}, 64<<10+1)
	r.tells(wants("one", "1"))
	r.answers(nil)
	r.want("it is refused", "plugin: allocate [a]", "pods: one UnexpectedAdmissionError; shared 0-3")
	if r.Logged("65537 bytes", string(gpu)) != 1 {
		t.Errorf("the log says\n%s", &r.Log)
	}
}

// TestLateAnswers: what a plugin says to an earlier attempt does not count for the next.
func TestLateAnswers(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.offersBoth()
	r.tells(wantsBoth("one"))
	r.want("both are asked", "plugin: allocate [agpu]", "plugin: allocate [anic]")
	r.answers(&port.Error{Kind: port.Unavailable}) // the GPU's is gone
	r.answers(nil)                                 // the NIC's answers the first attempt
	r.want("nothing is given")
	r.Advance(2 * time.Second)
	r.want("both are asked again", "plugin: allocate [agpu]", "plugin: allocate [anic]")
	r.answers(nil)
	r.want("one answer is missing")
	r.answers(nil)
	r.want("it has both", "pods: one c devices; shared 0-3")
}

// TestAPluginThatHangs costs each pod a minute, and not a minute for each pod before it.
func TestAPluginThatHangs(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.offers(decide.Options{}, "a", "b", "c", "d")
	r.tells(wants("p1", "1"), wants("p2", "1"), wants("p3", "1"))
	r.want("one is asked for", "plugin: allocate [a]")
	r.Advance(time.Minute + 2*time.Second)
	r.want("all are refused", "pods: p1 UnexpectedAdmissionError; shared 0-3", "pods: p2 UnexpectedAdmissionError; shared 0-3",
		"pods: p3 UnexpectedAdmissionError; shared 0-3")
	r.tells(wants("p4", "1"))
	r.want("and their devices are free", "plugin: allocate [a]")
	r.tells(assignments.Release{UID: "p4"}, wants("p5", "1"))
	r.plugin.answers.Release(1)
	r.Advance(time.Millisecond)
	r.want("the call for a pod that is gone makes room", "plugin: allocate [a]")
}

// TestAPluginThatPrefersNothing: one that hangs when it is asked for a preference may still allocate.
func TestAPluginThatPrefersNothing(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.offers(decide.Options{Preferred: true}, "a", "b", "c")
	r.tells(wants("p1", "1"), wants("p2", "1"))
	r.want("it is asked", "plugin: prefer 1 of [a b c]")
	r.Advance(32 * time.Second)
	r.want("any is taken", "plugin: allocate [a]")
	r.plugin.answers.Release(1)
	r.Advance(time.Millisecond)
	r.want("for each", "pods: p1 c devices; shared 0-3", "plugin: allocate [b]")
}

// TestANewNumber: a request goes on when pods has restarted, and has one timer.
func TestANewNumber(t *testing.T) {
	r := newRig(t, plugged)
	r.disk()
	r.offers(decide.Options{}, "a")
	m := wants("one", "1")
	m.Number = 1
	r.tells(m)
	r.want("asked", "plugin: allocate [a]")
	r.answers(&port.Error{Kind: port.Unavailable})
	m.Number = 1<<32 + 1
	r.tells(m)
	r.Advance(2 * time.Second)
	r.want("asked again", "plugin: allocate [a]")
}

// TestAFullDisk: a pod of which the files say everything does not wait for them.
func TestAFullDisk(t *testing.T) {
	r := newRig(t, plugged, func(r *rig) { r.plugin.file, r.plugin.saveErr = had(nil), errors.New("no space left") })
	r.disk()
	r.offers(decide.Options{})
	r.offers(decide.Options{}, "a", "b")
	r.tells(ran(wants("one", "1")), wants("two", "1"))
	r.answers(nil)
	r.disk()
	r.Advance(time.Hour)
	r.want("only the new one waits", "pods: one c devices; shared 0-3", "plugin: allocate [b]")
}

// TestAnswersThatCantBeRead: a pod that runs goes on, and another one is refused and has nothing.
func TestAnswersThatCantBeRead(t *testing.T) {
	bad := []byte{0x0a, 0x05, 0x0a, 0x01, 0xff}
	r := newRig(t, plugged, func(r *rig) { r.plugin.file = had(bad) })
	r.disk()
	r.offers(decide.Options{}, "a")
	r.tells(ran(wants("one", "1")))
	r.want("it keeps running", "pods: one c unknown; shared 0-3")
	r = newRig(t, plugged, func(r *rig) { r.plugin.file = had(bad) })
	r.disk()
	r.offers(decide.Options{}, "a")
	r.tells(wants("one", "1"))
	r.disk()
	r.want("it is refused", "pods: one UnexpectedAdmissionError; shared 0-3")
	check.Equal(t, r.plugin.has(), "", "the checkpoint has")
}

// TestAPodThatGetsMore: what it has stays in the checkpoint while a plugin is asked for more.
func TestAPodThatGetsMore(t *testing.T) {
	r := newRig(t, plugged, func(r *rig) { r.plugin.file = had(nil) })
	r.disk()
	m := wants("one", "1")
	m.Pod.Spec.Containers = append(m.Pod.Spec.Containers, *m.Pod.Spec.Containers[0].DeepCopy())
	m.Pod.Spec.Containers[1].Name = "d"
	r.offers(decide.Options{}, "a", "b")
	r.tells(m)
	r.want("asked", "plugin: allocate [b]")
	r.offers(decide.Options{}, "a", "b", "c")
	if got := r.plugin.has(); got != "one [a]" || strings.Contains(string(r.plugin.file), `"ContainerName":"d"`) {
		t.Errorf("the checkpoint is %s", r.plugin.file)
	}
}
