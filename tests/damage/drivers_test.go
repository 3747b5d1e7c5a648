package damage_test

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/troupe-dev/troupe/actors/claims"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	decide "github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/dradrivers"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/dradrivers/drivertest"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// drivers is the real adapter, which answers before it returns, as with settled. It is the apiserver as well.
type drivers struct {
	adapter *dradrivers.Drivers
	t       *testing.T
	event   func(port.DRADriver)
	// of is the driver of a claim, by the name of the claim.
	of func(name string) string
}

// Drivers implements port.DRADrivers: the test registers drivers.
func (d *drivers) Drivers(_ context.Context, event func(port.DRADriver), _ func(error)) {
	d.event = event
}

// Health implements port.DRADrivers.
func (d *drivers) Health(ctx context.Context, of port.DRADriver, event func([]decide.Report), done func(error)) {
	first := make(chan func(), 1000)
	d.adapter.Health(ctx, of, func(all []decide.Report) { first <- func() { event(all) } },
		func(err error) { first <- func() { done(err) } })
	check.Receive(d.t, first)()
}

type answered = func(map[types.UID]decide.Answer, error)

// Prepare implements port.DRADrivers.
func (d *drivers) Prepare(ctx context.Context, of port.DRADriver, objects []decide.Object, done answered) {
	answer := make(chan func(), 1)
	d.adapter.Prepare(ctx, of, objects, func(a map[types.UID]decide.Answer, err error) { answer <- func() { done(a, err) } })
	check.Receive(d.t, answer)()
}

// Unprepare implements port.DRADrivers.
func (d *drivers) Unprepare(ctx context.Context, of port.DRADriver, objects []decide.Object, done answered) {
	answer := make(chan func(), 1)
	d.adapter.Unprepare(ctx, of, objects, func(a map[types.UID]decide.Answer, err error) { answer <- func() { done(a, err) } })
	check.Receive(d.t, answer)()
}

// Get implements claims.API: each claim is allocated, and reserved for the pod of its name.
func (d *drivers) Get(_ context.Context, k port.APIKey, done func(port.APIObject, error)) {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name, UID: types.UID("uid-" + k.Name)}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{UID: types.UID(k.Name)}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Driver: d.of(k.Name)}}
	done(c, nil)
}

// SliceDrivers implements port.ResourceSlices.
func (d *drivers) SliceDrivers(_ context.Context, done func([]string, error)) { done(nil, nil) }

// DeleteSlices implements port.ResourceSlices.
func (d *drivers) DeleteSlices(_ context.Context, _ string, done func(error)) { done(nil) }

// Record implements port.Recorder.
func (d *drivers) Record(e port.Event) {
	if n := len(e.Message); n > 10_000 {
		d.t.Errorf("an event has %d bytes: %.200q", n, e.Message)
	}
}

// TestHostileDrivers: whatever a DRA driver says, pods get claims of others, the pod that runs keeps its own, and a pod that
// waits learns which driver is why.
func TestHostileDrivers(t *testing.T) {
	dir := root(t)
	h := drivertest.NewHostile(1)
	hostile := true
	bad := &drivertest.Driver{
		Name: "gpu.example.com",
		Spoil: func(message []byte) []byte {
			if hostile {
				return h.Spoil(message)
			}
			return message
		},
		Answer: h.Prepare,
		Unprepared: func(*api.Claim) string {
			if hostile && h.IntN(2) == 0 {
				return "busy"
			}
			return ""
		},
	}
	bad.Says()
	good := &drivertest.Driver{Name: "net.example.com", Devices: func(*api.Claim) (*api.NodePrepareResourceResponse, error) {
		return &api.NodePrepareResourceResponse{Devices: []*api.Device{{PoolName: "n", DeviceName: "d", CdiDeviceIds: []string{"n/d=1"}}}}, nil
	}}
	d := &drivers{
		adapter: dradrivers.New(zerolog.Nop(), func(string, string, string, time.Duration) {}), t: t,
		of: func(name string) string {
			if strings.HasPrefix(name, "net") {
				return good.Name
			}
			return bad.Name
		},
	}
	t.Cleanup(d.adapter.Close)
	found := map[string]port.DRADriver{}
	for _, s := range []*drivertest.Driver{bad, good} {
		of := port.DRADriver{Name: s.Name, Endpoint: filepath.Join(dir, s.Name), Service: api.DRAPluginService}
		check.Fatal(t, s.Serve(filepath.Join(dir, s.Name+".r"), of.Endpoint))
		t.Cleanup(s.Stop)
		d.adapter.Found(of)
		found[s.Name] = of
	}
	had := decide.Claim{
		UID: "uid-runs", Namespace: "ns", Name: "runs", Pods: []types.UID{"runs"},
		Drivers: map[string][]decide.Device{bad.Name: {{Pool: "n", Name: "old", CDI: []string{"gpu=old"}}}},
	}
	files := memory{decide.FileName: decide.Format([]decide.Claim{had})}
	rig := actortest.New(t)
	living, told := map[types.UID]bool{"runs": true}, map[types.UID]*decide.Pod{}
	refs := map[types.UID]kernel.Ref[pod.Message]{}
	prepares := func(uid types.UID, runs bool) claims.Prepare {
		name := string(uid)
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}}
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "claim", ResourceClaimName: &name}}
		p.Spec.Containers = []v1.Container{{Name: "c"}}
		p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "claim"}}
		if _, is := refs[uid]; !is {
			refs[uid] = actortest.Play(rig, name, func(m pod.Message) { told[uid] = m.(pod.ClaimsAnswer).Claims })
		}
		return claims.Prepare{PrepareClaims: pod.PrepareClaims{Pod: p, Make: !runs, ReplyTo: refs[uid]}}
	}
	a := actortest.Spawn(rig, kernel.Spec[claims.Message]{
		Name: "claims", Policy: kernel.ForPods, New: claims.New(&claims.Deps{
			Drivers: d, API: d, Slices: d, Files: files, Events: d, Restarted: func() {}, Health: true, HealthMessages: true,
			Living:  func(reply func(map[types.UID]bool)) { reply(living) },
			Backoff: backoff.Policy{Base: time.Second, Max: 5 * time.Second},
		}),
	})
	rig.Advance(time.Millisecond)
	register := func() {
		for _, s := range []*drivertest.Driver{bad, good} {
			d.event(found[s.Name])
		}
		rig.Advance(time.Millisecond)
	}
	register()
	prepared, waited := 0, 0
	total := rounds()
	for i := range total {
		clear(told)
		bad.Says(h.Devices()...)
		d.event(port.DRADriver{Name: bad.Name, Gone: true})
		register() // its devices are watched again
		tells := 1
		if i%50 == 49 {
			a.Crash() // at the next message, which is lost
			tells = 2
		}
		uid, other := types.UID(fmt.Sprint("gpu", i)), types.UID(fmt.Sprint("net", i))
		living[uid], living[other] = true, true
		for range tells {
			for _, m := range []claims.Message{prepares(uid, false), prepares(other, false), prepares("runs", true)} {
				a.Tell(m)
			}
			rig.Advance(time.Second)
			if tells > 1 {
				register() // an incarnation that begins is told
			}
		}
		if p := told[other]; !p.Is(decide.Ready) || len(p.Of("c")) != 1 {
			t.Fatalf("%d: the pod with the other driver: %+v\n%s", i, p, &rig.Log)
		}
		if p := told["runs"]; !p.Is(decide.Known) || !reflect.DeepEqual(p.Of("c"), []string{"gpu=old"}) {
			t.Fatalf("%d: the pod that runs: %+v", i, p)
		}
		switch p := told[uid]; {
		case p.Is(decide.Ready):
			prepared++
		case !p.Is(decide.Pending) || p.Message != "" && !strings.Contains(p.Message, bad.Name) || len(p.Message) > 5000:
			t.Fatalf("%d: it waits: %+v", i, p)
		default:
			waited++
		}
		if n := len(files[decide.FileName]); n > 8<<20 {
			t.Fatalf("%d: the checkpoint has %d bytes", i, n)
		}
		for _, ends := range []types.UID{uid, other} {
			delete(living, ends)
			a.Tell(claims.Release{ReleaseClaims: pod.ReleaseClaims{UID: ends, ReplyTo: refs[ends]}})
		}
		rig.Advance(time.Second)
		rig.Log.Reset()
	}
	if prepared < total/10 || waited < total/10 {
		t.Errorf("%d pods got devices, %d waited", prepared, waited)
	}
	hostile = false
	rig.Advance(5 * time.Minute)
	if left, err := decide.Parse(files[decide.FileName]); err != nil || !reflect.DeepEqual(left, []decide.Claim{had}) {
		t.Errorf("%d claims are left: %+v, %v", len(left), left, err)
	}
}
