package podset

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// The reason of a stop must outlive the pod's actor, this actor and the agent, and the exit of a
// container does not show it. So it is saved before the first signal, in the checkpoint "stops":
//
//   - that a container is stopped to be restarted, where its exit code could be
//     taken for its completion (podlife.RestartNote);
//   - that a static pod is stopped because the pod was removed from its source. When one
//     wants it again, under the same UID, it is first stopped to the end, and then
//     begins another life: see comeback.go;
//   - which containers of a static pod have ended for good: nobody else has their status;
//   - that a pod is evicted, also if it is being deleted or removed already: then its actor is told at once
//     to end sooner, and why only when it is saved.
//
//	stop, NoteRestart ──► save ──Saved, or failed──► the pod's actor goes on
//
// Pods of the apiserver are stopped because it says so, and it says so again.

var stopsFile = checkpoint.File[savedStops]{
	Name: "stops", Valid: (*savedStops).valid,
	Without: "continuing without it: a container that was stopped for a restart and exited with 0 may count as " +
		"completed, and evicted static pods may start again",
	Unwritten: "cannot write the stops checkpoint; containers are stopped without it",
}

// stops is what the checkpoint and this actor remember of stops.
type stops struct {
	checkpoint.Journal[Message, savedStops]
	// unclaimed are the stops of pods that no source has named yet.
	unclaimed map[types.UID]*stopped
}

// stopped is the checkpoint's entry of one pod.
type stopped struct {
	// Containers are, by name, those that are stopped to be restarted.
	Containers map[string]podlife.RestartNote `json:"containers,omitempty"`
	// Since is when the pod was asked to stop, zero if it was not; it has Grace.
	Since time.Time     `json:"since,omitzero"`
	Grace time.Duration `json:"grace,omitempty"`
	// FirstSandbox is that of its current life. Before has its containers' status when it was
	// stopped.
	FirstSandbox uint32               `json:"firstSandbox,omitempty"`
	Before       []v1.ContainerStatus `json:"before,omitempty"`
	BeforeInit   []v1.ContainerStatus `json:"beforeInit,omitempty"`
	// Over are its containers that have ended for good in this life, if it is a static pod.
	Over []v1.ContainerStatus `json:"over,omitempty"`
	// Eviction is how it is evicted; nil if it is not.
	Eviction *podlife.Stop `json:"eviction,omitempty"`
}

// savedStops is the content of the checkpoint.
type savedStops struct {
	Pods map[types.UID]*stopped `json:"pods"`
}

func (c *savedStops) valid() error {
	if c.Pods == nil {
		return errors.New("there are no pods in it")
	}
	for uid, s := range c.Pods { // order-free: any is enough
		if s == nil {
			return fmt.Errorf("there is nothing about pod %s", uid)
		}
	}
	return nil
}

func (a *registry) loadedStops(ctx *kernel.Context[Message], c savedStops) {
	if a.stops.unclaimed = c.Pods; a.stops.unclaimed == nil {
		a.stops.unclaimed = map[types.UID]*stopped{}
	}
	for _, s := range a.stops.unclaimed { // order-free: each on its own
		for name, n := range s.Containers { // order-free: each on its own
			n.Written = true
			s.Containers[name] = n
		}
	}
	a.reconcile(ctx)
}

// recallStop restores what the checkpoint has of a pod.
func (a *registry) recallStop(r *record) {
	s := a.stops.unclaimed[r.Pod.UID]
	if s == nil {
		return
	}
	delete(a.stops.unclaimed, r.Pod.UID)
	r.restarts, r.first = s.Containers, s.FirstSandbox
	r.before = podset.WithOver(podset.EarlierStatus(s.BeforeInit, s.Before), s.Over)
	if r.Origin == podspec.API && r.first > 0 && podset.OfLife(&r.Pod.Status, a.runtime[r.Pod.UID], r.first) {
		r.before = &r.Pod.Status // it says more: that containers were ready
	}
	if !s.Since.IsZero() && r.Stop == nil && !podset.BegunSince(a.runtime[r.Pod.UID], s.Since) {
		r.Recall(podset.ForRemoval, podlife.Stop{At: s.Since, Grace: s.Grace, Why: podset.NotWanted})
	}
	if s.Eviction != nil && r.Origin != podspec.Orphan &&
		podset.StillEvicted(r.Origin, a.runtime[r.Pod.UID], s.Eviction.At) {
		r.Recall(podset.ForNode, *s.Eviction)
	}
}

// forgetUnclaimed drops the entries of pods that are gone, as soon as every source has named its
// pods.
func (a *registry) forgetUnclaimed() {
	if len(a.stops.unclaimed) > 0 && a.allSeen() {
		a.stops.unclaimed = map[types.UID]*stopped{}
		a.stops.Changed()
	}
}

// status is the last known status of a pod, nil for none.
func (r *record) status() *v1.PodStatus { return cmp.Or(r.report.Status, r.before) }

// reportedOver saves which containers of a static pod have ended for good, if these are others than before.
func (a *registry) reportedOver(ctx *kernel.Context[Message], r *record, before *v1.PodStatus) {
	if r.Origin.Static() && r.Stop == nil && len(podset.Over(r.Pod, before)) != len(podset.Over(r.Pod, r.report.Status)) {
		a.stops.Changed()
		a.saveStops(ctx)
	}
}

// remembers is the checkpoint's entry of a pod, nil for none.
func (r *record) remembers() *stopped {
	s := &stopped{Containers: r.restarts, FirstSandbox: r.first}
	removal, eviction := r.ToSave(r.Origin)
	if s.Eviction = eviction; removal != nil {
		s.Since, s.Grace = removal.At, removal.Grace
	}
	status := r.status()
	if r.Origin.Static() && r.Stop == nil {
		s.Over = podset.Over(r.Pod, status)
	}
	if len(s.Containers) == 0 && s.Since.IsZero() && s.FirstSandbox == 0 && s.Eviction == nil && len(s.Over) == 0 {
		return nil
	}
	if status != nil && (!s.Since.IsZero() || s.FirstSandbox != 0) {
		s.Before, s.BeforeInit = podset.Endings(status.ContainerStatuses), podset.Endings(status.InitContainerStatuses)
	}
	return s
}

// saveStops writes why pods and containers are stopped, if that changed.
func (a *registry) saveStops(ctx *kernel.Context[Message]) { a.stops.Write(ctx, a.rememberedStops) }

func (a *registry) rememberedStops() savedStops {
	all := map[types.UID]*stopped{}
	if !a.allSeen() {
		maps.Copy(all, a.stops.unclaimed) // a source may name them yet
	}
	for uid, r := range a.of { // order-free: a map again
		if s := r.remembers(); s != nil {
			all[uid] = s
		}
	}
	return savedStops{all}
}

// triedStops continues what waited for the checkpoint. A failed write blocks nothing.
func (a *registry) triedStops(ctx *kernel.Context[Message]) {
	for _, r := range a.ranked {
		if a.stops.Tried(r.noted) {
			a.written(r)
		}
	}
	a.saveStops(ctx)
}

// written tells the pod's actor to continue.
func (a *registry) written(r *record) {
	all := maps.Clone(r.restarts) // the pod's actor shares it
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if n := all[name]; !n.Written {
			n.Written = true
			all[name] = n
			r.ref.Tell(pod.Noted{Container: name, ID: n.ID})
		}
	}
	r.restarts = all
	if r.MarkSaved() {
		a.assign(r.Pod.UID)
	}
}

// evict ends a pod to protect the node.
func (a *registry) evict(ctx *kernel.Context[Message], m Evict) {
	r := a.of[m.UID]
	if r == nil || !r.Evictable() {
		return
	}
	ctx.Log().Warn().Str("pod", r.name()).Str("reason", m.Stop.Reason).Dur("grace", m.Stop.Grace).
		Msg("evicting pod: " + m.Stop.Message)
	first := r.Add(podset.ForNode, m.Stop)
	if first && r.State == podset.Waiting && !r.lives { // there is nothing to signal
		r.MarkSaved()
		a.stops.Changed()
		a.begin(ctx, r) // only to be taken down: see podset.Clean
		a.saveStops(ctx)
		return
	}
	if r.EffectiveStop() != nil { // what it was told before is shortened at once
		a.assign(m.UID)
	}
	switch {
	case first:
		a.remember(ctx, r)
	case r.Eviction != podset.Kept:
		a.stops.Changed()
		a.saveStops(ctx)
	}
}

// noteRestart saves that a container is stopped to be restarted.
func (a *registry) noteRestart(ctx *kernel.Context[Message], m pod.NoteRestart) {
	r := a.of[m.UID]
	if r == nil {
		return
	}
	if n, is := r.restarts[m.Container]; is && n.ID == m.Note.ID {
		if n.Written {
			r.ref.Tell(pod.Noted{Container: m.Container, ID: n.ID})
		}
		return
	}
	r.note(m.Container, podlife.RestartNote{ID: m.Note.ID, Cause: m.Note.Cause})
	a.remember(ctx, r)
}

// remember saves why something of a pod is stopped. While the disk fails, nothing waits for it.
func (a *registry) remember(ctx *kernel.Context[Message], r *record) {
	r.noted = a.stops.Changed()
	a.saveStops(ctx)
	if a.stops.State() == checkpoint.WriteLater {
		a.written(r)
	}
}

// note sets a note in a new map, because the pod's actor shares the old one.
func (r *record) note(container string, n podlife.RestartNote) {
	next := make(map[string]podlife.RestartNote, len(r.restarts)+1)
	maps.Copy(next, r.restarts)
	next[container] = n
	r.restarts = next
}
