package csi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/csi"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/volumes"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// rig is the actor alone, on a virtual clock. The rig plays volumes, nodestatus, pods, the drivers and the apiserver.
// Drivers answer when the test says so, the apiserver at once.
type rig struct {
	*actortest.Rig
	actor  *actortest.Actor[csi.Message]
	calls  *actortest.Calls
	events actortest.Events
	// watch is that of drivers, objects that of CSIDrivers.
	watch   func(port.CSIDriver)
	objects *actortest.Watches
	found   []decide.Found
	bad     []string
	lost    []decide.Lost
	living  map[types.UID]bool
	stored  map[port.APIKey]port.APIObject
	node    *v1.Node
	stages  []decide.Stage
	publish []decide.Publish
	walked  port.Walked
	// rejects is why the apiserver does not accept an object, nil for none; infos is what drivers say, if it is
	// set, and at once if they are prompt.
	rejects func(port.APIObject) error
	infos   map[string]decide.Info
	prompt  bool
	// silent is a key that the apiserver never answers for; gets counts how often each was asked for.
	silent port.APIKey
	// period is the time between questions for figures, health what drivers say of volumes.
	period time.Duration
	health *decide.Health
	gets   map[port.APIKey]int
	// drivers are others than the rig, if that is set; measured is how often they were asked for figures.
	drivers  port.CSI
	measured int
	// written is how often nodestatus was told that the CSINode was written, answers how many messages volumes was sent.
	written, answers int
}

const driver = "d.example.com"

func newRig(t *testing.T, change ...func(*rig)) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t), living: map[types.UID]bool{}, stored: map[port.APIKey]port.APIObject{}, gets: map[port.APIKey]int{}}
	r.calls, r.events, r.objects = r.NewCalls("driver"), r.NewEvents(), r.NewWatches()
	r.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node"}}
	r.stored[port.APIKeyOf(r.node)] = r.node
	for _, c := range change {
		c(r)
	}
	if r.drivers == nil {
		r.drivers = r
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[csi.Message]{
		Name: "csi", Runner: r.Runner(), Policy: kernel.ForPods, MailboxLimit: 32,
		New: csi.New(&csi.Deps{
			Drivers: r.drivers, API: r, Events: r.events, Node: "n",
			Answer:    r.answered,
			Released:  func(uid types.UID) { r.Say("volumes: %s released", uid) },
			Restarted: func() { r.Say("volumes: restarted") },
			InUse: func(all []v1.UniqueVolumeName) {
				check.Equal(t, all == nil, false, "nodestatus takes no list for one that is not known yet")
				r.Say("node: in use %v", all)
			},
			Written:  func() { r.written++ },
			Settings: csi.Settings{StatsPeriod: r.period, VolumeHealth: r.health != nil},
			Reject: func(p *v1.Pod, reason, message string, _ time.Time) {
				r.Say("pods: reject %s: %s: %s", p.UID, reason, message)
			},
			Living:  func(reply func(map[types.UID]bool)) { reply(r.living) },
			Backoff: backoff.Policy{Base: time.Second, Max: time.Minute},
		}),
	})
	return r
}

// answered is what volumes is told of a pod.
func (r *rig) answered(m volumes.CSIAnswer) {
	r.answers++
	for _, n := range m.News {
		switch {
		case n.Failure != "" && n.Path != "":
			r.Say("volumes: %s %s failed: %s at %s", m.UID, n.Volume, n.Failure, n.Path)
		case n.Failure != "":
			r.Say("volumes: %s %s failed: %s", m.UID, n.Volume, n.Failure)
		case n.Path != "":
			r.Say("volumes: %s %s at %s", m.UID, n.Volume, n.Path)
		case n.Unattached:
			r.Say("volumes: %s %s waits, unattached: %s", m.UID, n.Volume, n.Waiting)
		default:
			r.Say("volumes: %s %s waits: %s", m.UID, n.Volume, n.Waiting)
		}
	}
}

// Drivers implements port.CSI.
func (r *rig) Drivers(_ context.Context, event func(port.CSIDriver), _ func(error)) { r.watch = event }

// NodeInfo implements port.CSI.
func (r *rig) NodeInfo(ctx context.Context, d port.CSIDriver, done func(decide.Info, error)) {
	if r.prompt {
		r.Say("driver: info %s", d.Name)
		done(r.infos[d.Name], nil)
		return
	}
	r.calls.Called(ctx, "info "+d.Name, func(err error) {
		info, is := r.infos[d.Name]
		if !is {
			info = decide.Info{NodeID: "id", MaxVolumes: 5, Topology: map[string]string{"zone": "a"}}
		}
		done(info, err)
	})
}

// FoundVolumes implements port.CSI.
func (r *rig) FoundVolumes(_ context.Context, done func([]decide.Found, []decide.Lost, []string, error)) {
	done(r.found, r.lost, r.bad, nil)
}

// StageVolume implements port.CSI.
func (r *rig) StageVolume(ctx context.Context, _ port.CSIDriver, s decide.Stage, done func(error)) {
	r.stages = append(r.stages, s)
	r.calls.Called(ctx, "stage "+s.Handle, done)
}

// PublishVolume implements port.CSI.
func (r *rig) PublishVolume(ctx context.Context, _ port.CSIDriver, p decide.Publish, walked port.Walked, done func(string, error)) {
	r.publish, r.walked = append(r.publish, p), walked
	r.calls.Called(ctx, fmt.Sprintf("publish %s for %s", p.Handle, p.Pod), func(err error) { done("/"+string(p.Pod), err) })
}

// UnpublishVolume implements port.CSI.
func (r *rig) UnpublishVolume(ctx context.Context, _ port.CSIDriver, f decide.Found, done func(error)) {
	r.calls.Called(ctx, fmt.Sprintf("unpublish %s for %s", f.Handle, f.Target.Pod), done)
}

// ExpandVolume implements port.CSI.
func (r *rig) ExpandVolume(ctx context.Context, _ port.CSIDriver, e decide.Expand, done func(error)) {
	r.calls.Called(ctx, fmt.Sprintf("expand %s to %d for %s", e.Handle, e.Size, e.Pod), done)
}

// VolumeStats implements port.CSI.
func (r *rig) VolumeStats(ctx context.Context, _ port.CSIDriver, m decide.Measure, done func(decide.Usage, error)) {
	r.calls.Called(ctx, fmt.Sprintf("stats %s for %s as %v", m.Handle, m.Pod, m.Volumes), func(err error) {
		done(decide.Usage{Health: r.health}, err)
	})
}

// UnstageVolume implements port.CSI.
func (r *rig) UnstageVolume(ctx context.Context, _ port.CSIDriver, f decide.Found, done func(error)) {
	r.calls.Called(ctx, "unstage "+f.Handle, done)
}

// Watch implements csi.API.
func (r *rig) Watch(ctx context.Context, s port.Selection, change func(port.APIChange), ended func(error)) {
	r.objects.Watch(ctx, s, change, ended)
}

// Get implements csi.API.
func (r *rig) Get(_ context.Context, k port.APIKey, done func(port.APIObject, error)) {
	r.gets[k]++
	if k == r.silent {
		return
	}
	o := r.stored[k]
	if o == nil {
		done(nil, &port.Error{Kind: port.NotFound, Verb: "Get", Object: k.String(), Detail: "not found"})
		return
	}
	done(o, nil)
}

// Create implements csi.API.
func (r *rig) Create(_ context.Context, o port.APIObject, done func(port.APIObject, error)) {
	r.store("create", o, done)
}

// Update implements csi.API.
func (r *rig) Update(_ context.Context, o port.APIObject, done func(port.APIObject, error)) {
	r.store("update", o, done)
}

// Patch implements csi.API.
func (r *rig) Patch(_ context.Context, p port.APIPatch, done func(port.APIObject, error)) {
	r.store("patch", p.To, done)
}

func (r *rig) store(verb string, o port.APIObject, done func(port.APIObject, error)) {
	if r.rejects != nil {
		if err := r.rejects(o); err != nil {
			done(nil, err)
			return
		}
	}
	defer func() { done(o, nil) }()
	r.stored[port.APIKeyOf(o)] = o
	text := ""
	switch o := o.(type) {
	case *v1.PersistentVolumeClaim:
		text = fmt.Sprintf("%v %v %d", o.Status.Capacity.Storage(), o.Status.AllocatedResourceStatuses, len(o.Status.Conditions))
	case *v1.Node:
		text = fmt.Sprintf("labels %v, IDs %s", o.Labels, o.Annotations[decide.NodeIDs])
	case *storagev1.CSINode:
		for _, d := range o.Spec.Drivers {
			text += fmt.Sprintf("%s=%s %v ", d.Name, d.NodeID, d.TopologyKeys)
		}
	}
	r.Say("%s", strings.TrimSpace(fmt.Sprintf("api: %s %s: %s", verb, port.APIKeyOf(o), text)))
}

// CreateToken implements csi.API.
func (r *rig) CreateToken(
	_ context.Context, namespace, account string, spec authenticationv1.TokenRequestSpec,
	done func(authenticationv1.TokenRequestStatus, error),
) {
	r.Say("api: token of %s/%s for %v", namespace, account, spec.Audiences)
	done(authenticationv1.TokenRequestStatus{Token: "secret"}, nil)
}

// register has the driver register, and its CSIDriver known.
func (r *rig) register(spec storagev1.CSIDriverSpec) {
	r.objects.Tell(port.APIReplaced{Objects: []port.APIObject{&storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: spec,
	}}})
	r.watch(port.CSIDriver{Name: driver, Endpoint: "/d"})
	r.Settle()
}

func spec(pod, volume string) *decide.Spec {
	return &decide.Spec{
		Key: decide.Key{Driver: driver, Handle: volume}, Target: decide.Target{Pod: types.UID(pod), Name: "pv-" + volume},
		Access: v1.ReadWriteOnce, Namespace: "default", PodName: pod, ServiceAccount: "sa",
	}
}

// asks is how volumes asks for one volume of a pod.
func asks(p *v1.Pod, volume string, s *decide.Spec) csi.Use {
	return csi.Use{UseCSI: volumes.UseCSI{Pod: p, Volumes: []volumes.CSIVolume{{Name: volume, Spec: s}}}}
}

// use has a pod use a volume.
func (r *rig) use(s *decide.Spec) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.PodName, UID: s.Pod}}
	r.actor.Tell(asks(p, "data-"+s.Handle, s))
	r.Settle()
}

func (r *rig) release(pod string) {
	r.actor.Tell(csi.Release{ReleaseCSI: volumes.ReleaseCSI{UID: types.UID(pod)}})
	r.Settle()
}

// nodeSays has the Node name volumes as in use and as attached.
func (r *rig) nodeSays(inUse, attached []string) {
	n := r.node.DeepCopy()
	for _, v := range inUse {
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, decide.Key{Driver: driver, Handle: v}.UniqueName())
	}
	for _, v := range attached {
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, v1.AttachedVolume{Name: decide.Key{Driver: driver, Handle: v}.UniqueName()})
	}
	r.actor.Tell(csi.NodeSeen{Node: n})
	r.Settle()
}

func fails(kind port.ErrorKind, text string) error {
	return &port.Error{Kind: kind, Verb: "Node", Object: driver, Detail: text}
}
