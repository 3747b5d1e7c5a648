package nodestatus

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/port"
)

// disk has the checkpoints. err is what it answers to a write.
type disk struct {
	r     *rig
	data  map[string][]byte
	saves int
	err   error
	// slow is how long it takes to read one.
	slow time.Duration
}

// Load implements port.Checkpoints.
func (d *disk) Load(_ context.Context, name string, done func([]byte, error)) {
	d.r.AfterFunc(d.slow, func() { done(d.data[name], nil) })
}

// Save implements port.Checkpoints.
func (d *disk) Save(_ context.Context, name string, data []byte, done func(error)) {
	d.saves++
	if d.err == nil {
		d.data[name] = data
	}
	err := d.err
	d.r.AfterFunc(time.Millisecond, func() { done(err) })
}

// SetAside implements port.Checkpoints.
func (d *disk) SetAside(_ context.Context, name string, done func(string, error)) {
	d.data[name] = nil
	d.r.AfterFunc(time.Millisecond, func() { done("aside", nil) })
}

const gpu v1.ResourceName = "nvidia.com/gpu"

// left makes the node that of a kubelet with GPUs.
func (r *rig) left(n string) {
	r.put(func(o *v1.Node) {
		for _, l := range []*v1.ResourceList{&o.Status.Capacity, &o.Status.Allocatable} {
			if *l == nil {
				*l = v1.ResourceList{}
			}
			(*l)[gpu] = resource.MustParse(n)
		}
	})
}

func (r *rig) gpus() int64 {
	q := r.node.Status.Allocatable[gpu]
	return q.Value()
}

// TestReset: the checkpoint of the kubelet is lost. What the node advertised is set to 0 with the first write of its
// status, and pods hear of nothing else; what is added afterwards stays, until there is another loss or another Node.
func TestReset(t *testing.T) {
	r := newRig(t)
	r.before()
	r.left("8")
	d := &disk{r: r, data: map[string][]byte{}, slow: time.Second}
	lost := func(why string) func(*Deps) {
		return func(deps *Deps) { deps.Checkpoints, deps.Devices = d, devicestate.Unknown(why) }
	}
	r.start(lost("none"))
	r.Advance(900 * time.Millisecond)
	if r.Count("report") > 0 || len(r.seen) > 0 {
		t.Errorf("it does not wait for its mark: %v, seen %d times", r.Lines(), len(r.seen))
	}
	r.Advance(time.Second)
	if r.gpus() != 0 || r.Count("report") != 1 || d.saves != 1 {
		t.Errorf("%d GPUs, %v, %d saves", r.gpus(), r.Lines(), d.saves)
	}
	for _, n := range r.seen {
		if q := n.Status.Allocatable[gpu]; q.Value() != 0 {
			t.Errorf("pods are admitted with %s GPUs", q.String())
		}
	}
	r.left("3")
	r.Advance(time.Minute)
	if last := r.seen[len(r.seen)-1].Status.Allocatable[gpu]; r.gpus() != 3 || last.Value() != 3 {
		t.Errorf("what was added afterwards is %d, seen as %s", r.gpus(), last.String())
	}
	for why, want := range map[string]int64{"none": 3, "damaged:1": 0} {
		r := &rig{Rig: newRig(t).Rig, fail: r.fail, machine: r.machine, node: r.node, lease: r.lease, version: r.version}
		r.runtime = runtimePort{r: r, status: ready()}
		d := &disk{r: r, data: map[string][]byte{resetFile.Name: d.data[resetFile.Name]}}
		r.start(func(deps *Deps) { deps.Checkpoints, deps.Devices = d, devicestate.Unknown(why) })
		r.Advance(time.Minute)
		if r.gpus() != want {
			t.Errorf("after a restart with %s: %d GPUs, want %d", why, r.gpus(), want)
		}
	}
	old := r.node
	r.node = nil
	r.watch(port.APIDeleted{Object: old})
	r.Advance(time.Second)
	if r.node == nil || r.gpus() != 0 || !strings.Contains(string(d.data[resetFile.Name]), string(r.node.UID)) {
		t.Errorf("of the new Node: %s", d.data[resetFile.Name])
	}
}

// TestResetUnsaved: a disk that can't be written keeps nothing from being written to the apiserver, and is asked again.
func TestResetUnsaved(t *testing.T) {
	r := newRig(t)
	r.before()
	r.left("8")
	d := &disk{r: r, data: map[string][]byte{}, err: &port.Error{Detail: "no space left on device"}}
	r.start(func(deps *Deps) { deps.Checkpoints, deps.Devices = d, devicestate.Unknown("none") })
	r.Advance(time.Second)
	r.left("2")
	r.Advance(20 * time.Second)
	if r.gpus() != 2 || d.saves < 3 || d.saves > 6 {
		t.Errorf("%d GPUs after %d saves", r.gpus(), d.saves)
	}
	d.err = nil
	r.Advance(6 * time.Second)
	if len(d.data) != 1 {
		t.Error("the mark is not written")
	}
	saves := d.saves
	r.Advance(time.Hour)
	if d.saves != saves {
		t.Errorf("%d saves more", d.saves-saves)
	}
}
