package damage_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	decide "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/deviceplugins"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// rounds is how many hostile answers pods get. With the race detector they are few: CI runs all without it.
func rounds() int {
	if actortest.Raced {
		return 200
	}
	return 1000
}

// root is a directory with a short path: sockets are in it. No goroutine may be left when the test ends.
func root(t *testing.T) string {
	t.Helper()
	dir := check.Value(os.MkdirTemp("", "h"))(t)
	t.Cleanup(func() {
		check.Error(t, os.RemoveAll(dir))
		goleak.VerifyNone(t)
	})
	return dir
}

// memory is a disk that answers at once.
type memory map[string][]byte

// Load implements port.Checkpoints.
func (m memory) Load(_ context.Context, name string, done func([]byte, error)) { done(m[name], nil) }

// Save implements port.Checkpoints.
func (m memory) Save(_ context.Context, name string, data []byte, done func(error)) {
	m[name] = data
	done(nil)
}

// SetAside implements port.Checkpoints.
func (m memory) SetAside(_ context.Context, name string, done func(string, error)) {
	delete(m, name)
	done("aside", nil)
}

// settled is the real adapter, which answers before it returns, so that a virtual clock need not wait for sockets. Of each
// watch it passes on what comes first.
type settled struct {
	*deviceplugins.Plugins
	t     *testing.T
	event func(port.DevicePlugin)
}

// Registrations implements port.DevicePlugins: the test registers plugins.
func (s *settled) Registrations(_ context.Context, event func(port.DevicePlugin), _ func(error)) {
	s.event = event
}

// Devices implements port.DevicePlugins.
func (s *settled) Devices(ctx context.Context, p port.DevicePlugin, event func([]decide.Device), done func(error)) {
	first := make(chan func(), 1000)
	s.Plugins.Devices(ctx, p, func(all []decide.Device) { first <- func() { event(all) } },
		func(err error) { first <- func() { done(err) } })
	check.Receive(s.t, first)()
}

// Prefer implements port.DevicePlugins.
func (s *settled) Prefer(ctx context.Context, p port.DevicePlugin, q decide.Question, done func([]string, error)) {
	answer := make(chan func(), 1)
	s.Plugins.Prefer(ctx, p, q, func(ids []string, err error) { answer <- func() { done(ids, err) } })
	check.Receive(s.t, answer)()
}

// Allocate implements port.DevicePlugins.
func (s *settled) Allocate(ctx context.Context, p port.DevicePlugin, ids []string, done func([]byte, error)) {
	answer := make(chan func(), 1)
	s.Plugins.Allocate(ctx, p, ids, func(data []byte, err error) { answer <- func() { done(data, err) } })
	check.Receive(s.t, answer)()
}

const (
	gpu v1.ResourceName = "example.com/gpu"
	nic v1.ResourceName = "example.com/nic"
)

// wants is a pod with a container of so many devices.
func wants(uid types.UID, name v1.ResourceName, n int) assignments.Place {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(uid), UID: uid}}
	all := v1.ResourceList{name: *resource.NewQuantity(int64(n), resource.DecimalSI)}
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: all, Limits: all}}}
	return assignments.Place{Pod: p}
}

// TestHostilePlugins: whatever a device plugin says, pods get devices of others, the pod that runs keeps its own, no device
// is given twice, and a pod that is refused learns which resource is why.
func TestHostilePlugins(t *testing.T) {
	dir := root(t)
	h := plugintest.NewHostile(1)
	bad := &plugintest.Plugin{Resource: string(gpu), Spoil: h.Spoil, PreferAnswer: h.Prefer, Answer: h.Allocate}
	good := &plugintest.Plugin{Resource: string(nic)}
	for _, p := range []*plugintest.Plugin{bad, good} {
		p.List("n1", "n2", "n3")
		check.Fatal(t, p.Serve(filepath.Join(dir, filepath.Base(p.Resource))))
		defer p.Stop()
	}
	had := devicestate.Grants{"runs": {"c": {{Resource: gpu, IDs: map[int64][]string{devicestate.NoNUMA: {"d0"}}}}}}
	files := memory{devicestate.Name: devicestate.Format(nil, had)}
	m := &topology.Machine{Nodes: []topology.Node{{ID: 0, Distances: []int{10, 20}}, {ID: 1, Distances: []int{20, 10}}}}
	for id := range 4 {
		m.CPUs = append(m.CPUs, topology.CPU{ID: id, Core: id, Node: id / 2, Socket: id / 2})
	}
	rules := check.Value(cpus.New(cpus.Config{
		Machine: m, Topology: kubelet.BestEffortTopologyManagerPolicy, TopologyOptions: topology.Options{MaxNodes: 8},
	}))(t)
	rig := actortest.New(t)
	var published kernel.Published[devices.Snapshot]
	plugins := &settled{Plugins: deviceplugins.New(filepath.Join(dir, "device-plugins"), dir, zerolog.Nop()), t: t}
	answers := map[types.UID]assignments.Placed{}
	actortest.Spawn(rig, kernel.Spec[devices.Message]{
		Name: "devices", Policy: kernel.ForPods, New: devices.New(&devices.Deps{
			Plugins: plugins, Tell: published.Publish,
			Backoff: backoff.Policy{Base: time.Second, Max: time.Minute},
		}),
	})
	a := actortest.Spawn(rig, kernel.Spec[assignments.Message]{
		Name: "assignments", Policy: kernel.ForPods, New: assignments.New(&assignments.Deps{
			Rules: rules, Files: files, DeviceFiles: files, Plugins: plugins, Health: true, Restarted: func() {},
			Answer: func(m assignments.Answer) {
				for _, p := range m.Pods {
					answers[p.UID] = p
				}
			},
		}),
		Follows: []kernel.Subscription[assignments.Message]{
			kernel.Follow(&published, func(s devices.Snapshot) assignments.Message { return assignments.Plugins{Snapshot: s} }),
		},
	})
	rig.Advance(time.Millisecond)
	plugins.event(port.DevicePlugin{Resource: nic, Endpoint: filepath.Join(dir, "nic")})
	given, refused := 0, 0
	total := rounds()
	for i := range total {
		bad.ListAll(h.Devices())
		plugins.event(port.DevicePlugin{
			Resource: gpu, Endpoint: filepath.Join(dir, "gpu"), Options: decide.Options{Preferred: h.IntN(2) == 0},
		})
		rig.Advance(time.Millisecond)
		tells := 1
		if i%50 == 49 {
			a.Crash() // at the next message, which is lost
			tells = 2
		}
		uid, other := types.UID(fmt.Sprint("gpu-", i)), types.UID(fmt.Sprint("nic-", i))
		for range tells {
			a.Tell(wants(uid, gpu, 1+h.IntN(3)))
			a.Tell(wants(other, nic, 1))
			ran := wants("runs", gpu, 1)
			ran.Runs = true
			a.Tell(ran)
			rig.Advance(devices.Patience + 5*time.Second)
		}
		if p := answers[other]; p.Rejected != nil || len(p.Devices["c"].Env) != 1 {
			t.Fatalf("%d: the pod with the other plugin: %+v\n%s", i, p, &rig.Log)
		}
		switch p, is := answers[uid]; {
		case !is:
			t.Fatalf("%d: no answer\n%s", i, &rig.Log)
		case p.Rejected == nil:
			given++
		case !strings.Contains(p.Rejected.Message, string(gpu)) || len(p.Rejected.Message) > 4000:
			t.Fatalf("%d: it is refused with %.200q of %d bytes", i, p.Rejected.Message, len(p.Rejected.Message))
		default:
			refused++
		}
		if p := answers["runs"]; p.Rejected != nil || p.Devices["c"] == nil || len(p.Unknown) > 0 {
			t.Fatalf("%d: the pod that runs: %+v", i, p)
		}
		wantGrants(t, files[devicestate.Name], had)
		a.Tell(assignments.Release{UID: other})
		if i%4 > 0 { // the others stay for a while
			a.Tell(assignments.Release{UID: uid})
		}
		if i%20 == 19 {
			a.Tell(assignments.Living{Pods: map[types.UID]bool{"runs": true}})
		}
		clear(answers)
		rig.Advance(time.Second)
		rig.Log.Reset()
	}
	if given < total/10 || refused < total/10 {
		t.Errorf("%d pods got devices, %d were refused", given, refused)
	}
	// Watches are given up when their plugins are gone.
	bad.Stop()
	good.Stop()
}

// wantGrants fails if the checkpoint has other devices of pods than before, or one twice.
func wantGrants(t *testing.T, data []byte, had devicestate.Grants) {
	t.Helper()
	s := check.Value(devicestate.Parse(data))(t)
	all, taken := s.Grants(), map[string]types.UID{}
	for uid, containers := range all { // order-free: a set
		for _, grants := range containers { // order-free: a set
			for _, g := range grants {
				for _, id := range g.All() {
					if key := string(g.Resource) + " " + id; taken[key] != "" {
						t.Fatalf("%s is of %s and %s", key, taken[key], uid)
					} else {
						taken[key] = uid
					}
				}
			}
		}
	}
	for _, uid := range []types.UID{"runs"} {
		if !maps.EqualFunc(all[uid], had[uid], func(a, b []devicestate.Grant) bool {
			return len(a) == len(b) && len(a) > 0 && reflect.DeepEqual(a[0].IDs, b[0].IDs)
		}) {
			t.Fatalf("%s has %v, had %v", uid, all[uid], had[uid])
		}
	}
}
