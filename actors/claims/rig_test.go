package claims_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/claims"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	decide "github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the actor alone on a virtual clock. The rig plays the pods, the drivers, which answer when the test says so, the
// apiserver and the disk, which answer soon.
type rig struct {
	*actortest.Rig
	actor *actortest.Actor[claims.Message]
	// calls are those of drivers, files those of the disk, gets those of the apiserver.
	calls       *actortest.Calls
	files, gets *actortest.Answers
	events      actortest.Events
	pods        map[types.UID]kernel.Ref[pod.Message]
	objects     map[string]*resourcev1.ResourceClaim
	// refuse is why drivers refuse claims, by name; mute are those of which they say nothing.
	refuse map[string]string
	mute   map[string]bool
	told   func(port.DRADriver)
	// healths are the watches of drivers that tell how their devices are, by name; nil: none can.
	healths map[string]watch
	ended   func(error)
	// file is the checkpoint, err what the disk says.
	file     []byte
	err      error
	living   map[types.UID]bool
	slices   []string
	sliceErr error
	// counted is what metrics are told; inUse is the last of it, by driver, "all" for all.
	counted []string
	inUse   map[string]int
}

// watch is one of how the devices of a driver are.
type watch struct {
	event func([]decide.Report)
	done  func(error)
}

const base = time.Second

func newRig(t *testing.T, change ...func(*rig)) *rig {
	t.Helper()
	return rigOn(actortest.New(t), change...)
}

// rigOn makes it on another system than the usual one.
func rigOn(system *actortest.Rig, change ...func(*rig)) *rig {
	system.T.Helper()
	r := &rig{
		Rig: system, pods: map[types.UID]kernel.Ref[pod.Message]{}, refuse: map[string]string{},
		objects: map[string]*resourcev1.ResourceClaim{}, mute: map[string]bool{}, living: map[types.UID]bool{},
	}
	r.calls, r.files, r.gets, r.events = r.NewCalls("drivers"), r.NewAnswers(), r.NewAnswers(), r.NewEvents()
	for _, c := range change {
		c(r)
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[claims.Message]{
		Name: "claims", Policy: kernel.ForPods, MailboxLimit: 16, New: claims.New(&claims.Deps{
			Drivers: r, API: r, Slices: r, Files: r, Events: r.events,
			Living:    func(reply func(map[types.UID]bool)) { reply(maps.Clone(r.living)) },
			Restarted: func() { r.Say("all: repeat") },
			Counts:    r,
			Health:    true, HealthMessages: true,
			Backoff: backoff.Policy{Base: base, Max: 30 * time.Second},
		}),
	})
	r.soon()
	return r
}

// soon lets all answer that answer soon.
func (r *rig) soon() { r.Advance(20 * time.Millisecond) }

// Drivers implements port.DRADrivers.
func (r *rig) Drivers(_ context.Context, event func(port.DRADriver), done func(error)) {
	r.told, r.ended = event, done
}

// Health implements port.DRADrivers.
func (r *rig) Health(_ context.Context, d port.DRADriver, event func([]decide.Report), done func(error)) {
	if r.healths == nil {
		done(&port.Error{Kind: port.Unsupported})
		return
	}
	r.healths[d.Name] = watch{event, done}
}

// reports is a driver that says how some device of its pool "n" is.
func (r *rig) reports(driver, device string, is v1.ResourceHealthStatus, message string) {
	r.healths[driver].event([]decide.Report{{Pool: "n", Device: device, Health: is, Message: message, For: time.Minute}})
	r.soon()
}

// registers is a driver that comes, or goes.
func (r *rig) registers(name string, gone bool) {
	r.told(port.DRADriver{Name: name, Endpoint: "/" + name, Service: "v1.DRAPlugin", Gone: gone})
	r.soon()
}

// Prepare implements port.DRADrivers.
func (r *rig) Prepare(
	ctx context.Context, d port.DRADriver, of []decide.Object, done func(map[types.UID]decide.Answer, error),
) {
	r.call(ctx, d.Name+" prepare", of, done)
}

// Unprepare implements port.DRADrivers.
func (r *rig) Unprepare(
	ctx context.Context, d port.DRADriver, of []decide.Object, done func(map[types.UID]decide.Answer, error),
) {
	r.call(ctx, d.Name+" unprepare", of, done)
}

func (r *rig) call(ctx context.Context, what string, of []decide.Object, done func(map[types.UID]decide.Answer, error)) {
	driver, _, _ := strings.Cut(what, " ")
	for _, o := range of {
		what += " " + o.Name
		if !strings.Contains(string(r.file), string(o.UID)) {
			r.T.Errorf("%s: %s is not in the checkpoint", what, o)
		}
	}
	r.calls.Called(ctx, what, func(err error) {
		answers := map[types.UID]decide.Answer{}
		for _, o := range of {
			if !r.mute[o.Name] {
				answers[o.UID] = decide.Answer{Error: r.refuse[o.Name], Devices: []decide.Device{
					{Pool: "n", Name: o.Name, CDI: []string{driver + "=" + o.Name}},
				}}
			}
		}
		done(answers, err)
	})
}

// answers lets a driver answer a call.
func (r *rig) answers(err error, call string) {
	r.T.Helper()
	r.calls.Answer(err, call)
	r.soon()
}

// Get implements claims.API.
func (r *rig) Get(_ context.Context, k port.APIKey, done func(port.APIObject, error)) {
	r.gets.Give(func() {
		if o := r.objects[k.Name]; o != nil {
			done(o, nil)
			return
		}
		done(nil, &port.Error{Kind: port.NotFound, Verb: "get", Object: k.String(), Detail: "not found"})
	})
}

// Prepared implements claims.Counts.
func (r *rig) Prepared(took time.Duration, failed bool) { r.count("prepared", took, failed) }

// Unprepared implements claims.Counts.
func (r *rig) Unprepared(took time.Duration, failed bool) { r.count("unprepared", took, failed) }

func (r *rig) count(what string, took time.Duration, failed bool) {
	if failed {
		what = "not " + what
	}
	r.counted = append(r.counted, fmt.Sprintf("%s within %v", what, took.Round(base)))
}

// InUse implements claims.Counts.
func (r *rig) InUse(all int, by map[string]int) {
	r.inUse = by
	r.inUse["all"] = all
}

// SliceDrivers implements port.ResourceSlices.
func (r *rig) SliceDrivers(_ context.Context, done func([]string, error)) {
	done(slices.Clone(r.slices), r.sliceErr)
}

// DeleteSlices implements port.ResourceSlices.
func (r *rig) DeleteSlices(_ context.Context, driver string, done func(error)) {
	r.Say("slices of %s: delete", driver)
	done(r.sliceErr)
}

// Load implements port.Checkpoints.
func (r *rig) Load(_ context.Context, name string, done func([]byte, error)) {
	if name != decide.FileName {
		r.T.Errorf("the checkpoint is %q", name)
	}
	r.files.Give(func() { done(r.file, r.err) })
}

// Save implements port.Checkpoints.
func (r *rig) Save(_ context.Context, _ string, data []byte, done func(error)) {
	r.files.Give(func() {
		if r.err == nil {
			r.file = data
		}
		done(r.err)
	})
}

// SetAside implements port.Checkpoints.
func (r *rig) SetAside(_ context.Context, _ string, done func(string, error)) {
	r.Say("checkpoint: set aside")
	r.file = nil
	done("/aside", nil)
}

// has is what the checkpoint says.
func (r *rig) has() string {
	if r.file == nil {
		return ""
	}
	all, err := decide.Parse(r.file)
	r.Must(err)
	var out []string
	for i := range all {
		text := fmt.Sprintf("%s %s", all[i].Name, all[i].Pods)
		for _, d := range slices.Sorted(maps.Keys(all[i].Drivers)) {
			text += fmt.Sprintf(" %s:%d", d, len(all[i].Drivers[d]))
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// allocate makes a claim that is allocated devices of drivers, and reserved for pods.
func (r *rig) allocate(name string, drivers []string, pods ...types.UID) {
	o := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	o.Status.Allocation = &resourcev1.AllocationResult{}
	for _, d := range drivers {
		o.Status.Allocation.Devices.Results = append(o.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Driver: d})
	}
	for _, uid := range pods {
		o.Status.ReservedFor = append(o.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{UID: uid})
	}
	r.objects[name] = o
}

// prepared is a checkpoint with a claim of one driver.
func prepared(name, driver string, pods ...types.UID) []byte {
	return decide.Format([]decide.Claim{{
		UID: types.UID("uid-" + name), Namespace: "ns", Name: name, Pods: pods,
		Drivers: map[string][]decide.Device{driver: {{Pool: "n", Name: "old", CDI: []string{driver + "=old"}}}},
	}})
}

// prepare is the request of a pod with claims of these names, which its container uses. Its sandbox is to be made.
func (r *rig) prepare(uid types.UID, names ...string) claims.Prepare {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(uid), UID: uid}}
	p.Spec.Containers = []v1.Container{{Name: "c"}}
	for _, n := range names {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: n, ResourceClaimName: &n})
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, v1.ResourceClaim{Name: n})
	}
	r.living[uid] = true
	return claims.Prepare{PrepareClaims: pod.PrepareClaims{Pod: p, Make: true, ReplyTo: r.pod(uid)}}
}

func (r *rig) release(uid types.UID) claims.Release {
	return claims.Release{ReleaseClaims: pod.ReleaseClaims{UID: uid, ReplyTo: r.pod(uid)}}
}

func (r *rig) pod(uid types.UID) kernel.Ref[pod.Message] {
	if _, ok := r.pods[uid]; !ok {
		r.pods[uid] = actortest.Play(r.Rig, "pod-"+string(uid), func(m pod.Message) {
			c := m.(pod.ClaimsAnswer).Claims
			text := c.State.String()
			if len(c.CDI) > 0 {
				text += " " + strings.Join(c.CDI["c"], " ")
			}
			for _, s := range c.HealthOf("c") {
				for _, h := range s.Resources {
					if h.Health != v1.ResourceHealthStatusUnknown {
						text += fmt.Sprintf(", %s %s %s %s", s.Name, h.ResourceID, h.Health, ptr.Deref(h.Message, ""))
					}
				}
			}
			if c.Message != "" {
				text += ": " + c.Message
			}
			r.Say("%s: %s", uid, text)
		})
	}
	return r.pods[uid]
}

func (r *rig) tells(all ...claims.Message) {
	for _, m := range all {
		r.actor.Tell(m)
	}
	r.soon()
}

func (r *rig) want(what string, want ...string) {
	r.T.Helper()
	r.Settle()
	r.WantByListener(what, want...)
}

func (r *rig) wantFile(want string) {
	r.T.Helper()
	if got := r.has(); got != want {
		r.T.Errorf("at %v: the checkpoint has %q, want %q", r.Since(), got, want)
	}
}

var errDisk = errors.New("no space left")
