package imagepull

import (
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Stage is how far the pull of an image is. There is one pull at a time, however many wait for it.
//
//	Idle ──needed, and not held up──► Queued ──its turn (registryPullQPS)──► Noting: its intent is written
//	 ▲                                                                          │            │
//	 │◄─can't be written, nobody waits any more─────────────────────────────────┤            ▼
//	 │                                                                          │      Asking: the runtime says
//	 │                                                                          ▼            │ what it has before
//	 ├◄─pulled, failed with all credentials, or dropped from its queue─────── Pulling ◄──────┘
//	 │                                                                      │  ▲  │
//	 │                                  one more credential is tried────────└──┘  │nobody waits any more, or a pod
//	 │                                                                            ▼needs another pull
//	 ├◄─answered──────────────────────────────────────────────────────────── Leaving
//	 └◄─answered── Inherited: an earlier incarnation began it ──nobody waits any more──► Disowned ──answered──► Idle
//
// Leaving also follows Noting and Asking: then the pull does not begin.
type Stage uint8

// The stages of a pull.
const (
	Idle Stage = iota
	Queued
	Noting
	Asking
	Pulling
	Leaving
	Inherited
	Disowned
)

func (s Stage) String() string {
	return [...]string{"Idle", "Queued", "Noting", "Asking", "Pulling", "Leaving", "Inherited", "Disowned"}[s]
}

// Under says that something of a pull is under way, so no other begins.
func (s Stage) Under() bool { return s > Queued }

// Calls says that the runtime was asked, or is when there is a slot.
func (s Stage) Calls() bool { return s >= Pulling }

// next are the stages that may follow.
var next = [...][]Stage{
	Idle:      {Queued, Inherited},
	Queued:    {Noting, Pulling, Idle},
	Noting:    {Asking, Pulling, Leaving, Idle},
	Asking:    {Pulling, Leaving, Idle},
	Pulling:   {Pulling, Leaving, Idle},
	Leaving:   {Idle},
	Inherited: {Idle, Disowned},
	Disowned:  {Idle},
}

// Become changes the stage. A change that the diagram does not have is a mistake of the caller.
func (i *Image) Become(s Stage) {
	if !slices.Contains(next[i.Stage], s) {
		panic("image " + i.Name + " becomes " + s.String() + " and is " + i.Stage.String())
	}
	i.Stage = s
}

// Sight is what the runtime said last.
//
//	Unseen ──looked──► Absent, Present ──pulled, removed, FreshFor is over──► looked for again
type Sight uint8

// What a runtime says of an image.
const (
	Unseen Sight = iota
	Absent
	Present
)

func (s Sight) String() string { return [...]string{"Unseen", "Absent", "Present"}[s] }

// Look is whether the image is being looked for.
type Look uint8

// The stages of a look.
const (
	NotLooking Look = iota
	Looking
)

func (l Look) String() string { return [...]string{"NotLooking", "Looking"}[l] }

// Image is all that is known of one image.
type Image struct {
	Name  string
	Stage Stage
	// TurnAt is when the pull may begin, if it is Queued.
	TurnAt time.Time
	Look   Look
	Sight  Sight
	// Info is what the runtime said if the image is Present. It is shared, and never changed.
	Info *observed.Image
	// seenAt is when it said so; zero: that does not count any more.
	seenAt time.Time
	// failures are those of each pod's pulls since it last had the image, looks of looks.
	failures map[types.UID]failures
	looks    Failures
	// Begun is when the pull under way was asked for. took is the duration of the last one that worked, which was at
	// ended.
	Begun, ended time.Time
	took         time.Duration
	// told are the pods of which a container was told that it is being pulled.
	told map[types.UID]bool
	// with is what the pull under way is made with, left what is tried after it, and tried what failed before it.
	with  Credential
	left  []Credential
	tried []attempt
	// by is whose the credential of the pull under way is, of those who do not wait any more, or have others now.
	by []Offer
	// parted is who was the last of them.
	parted purse
	// Waiting are those who wait for it. Invariant: none of them is Served when a decision was performed.
	Waiting []*Waiter
}

// Check says that the invariant does not hold. It is asked when decisions were performed.
func (i *Image) Check() error {
	if slices.ContainsFunc(i.Waiting, func(w *Waiter) bool { return w.State == Served }) {
		return errors.New("imagestate: Waiting: none of them is Served when a decision was performed: " + i.Name)
	}
	return nil
}

// New is an image of which nothing is known.
func New(name string) *Image { return &Image{Name: name, failures: map[types.UID]failures{}} }

// Env is what a decision depends on beside the image.
type Env struct {
	Now     time.Time
	Backoff backoff.Policy
	// FreshFor is how long what the runtime said counts. LookEvery is how soon an image is looked for again that may come
	// by other means.
	FreshFor, LookEvery time.Duration
	// Plugins: there is something to look up that images are pulled with apart from pull secrets.
	Plugins bool
}

// Fresh reports whether the last look still counts.
func (i *Image) Fresh(e *Env) bool { return !i.seenAt.IsZero() && e.Now.Sub(i.seenAt) < e.FreshFor }

// ID is that of the image that is there, empty for none.
func (i *Image) ID() string {
	if i.Sight != Present {
		return ""
	}
	return i.Info.ID
}

// See notes what the runtime says. lost are those that a pull should have brought the image: it is not there after all,
// and again at once would be again and again.
func (i *Image) See(info *observed.Image, ok bool, now time.Time) (lost []*Waiter) {
	i.looks = Failures{}
	if i.Learn(info, ok, now); ok {
		return nil
	}
	for _, w := range i.Waiting {
		if w.State == Brought {
			w.State = Asked
			lost = append(lost, w)
		}
	}
	return lost
}

// Learn notes what the runtime says to somebody else.
func (i *Image) Learn(info *observed.Image, ok bool, now time.Time) {
	if i.seenAt, i.Sight, i.Info = now, Absent, nil; ok {
		i.Sight, i.Info = Present, info
	}
}

// Outdate notes that what the runtime said does not count any more.
func (i *Image) Outdate() { i.seenAt = time.Time{} }

// Unsure notes that the image has to be looked for again. What is being looked at is from before.
func (i *Image) Unsure() { i.Look, i.seenAt = NotLooking, time.Time{} }

// NotSeen notes that the runtime did not say whether it has the image. blind are those who wait for that.
func (i *Image) NotSeen(message string, e *Env) (blind []*Waiter) {
	i.looks = i.looks.Failed(ImageInspectError, message, e.Now)
	for _, w := range i.Waiting {
		if w.Ask.Policy != v1.PullAlways && !i.Fresh(e) {
			blind = append(blind, w)
		}
	}
	return blind
}

// LookAnew forgets that looks have failed: the runtime answers again.
func (i *Image) LookAnew() { i.looks = Failures{} }

// Leave drops waiters, and gives them.
func (i *Image) Leave(which func(*Waiter) bool) (gone []*Waiter) {
	i.Waiting = slices.DeleteFunc(i.Waiting, func(w *Waiter) bool {
		if which(w) {
			i.Part(w)
			gone = append(gone, w)
			return true
		}
		return false
	})
	return gone
}

// Same says that a request is the same as before, but for what it pulls with.
func (w *Waiter) Same(other *Waiter) bool {
	return w.Ask.Attempt == other.Ask.Attempt && w.Ask.Ahead == other.Ask.Ahead
}

// Refresh notes the pull secrets of a waiter that has asked again.
func (i *Image) Refresh(w *Waiter, secrets *Fit) {
	if !w.Secrets.Same(secrets) {
		i.Part(w)
		w.Secrets, w.RefusedBy = secrets, nil
	}
}

// Replace takes over from an earlier request of the same container. If that was ahead of its turn (Request),
// it begins anew: what failed meanwhile was no failure of its start, and the image may have come to the registry since.
// A pull under way becomes its own.
func (i *Image) Replace(before, w *Waiter) {
	switch {
	case before.Ask.Ahead == w.Ask.Ahead:
		w.since = before.since
	case before.Ask.Ahead && !i.failures[w.Pod.UID].inTurn:
		delete(i.failures, w.Pod.UID)
	}
}

// Forget forgets the failures of a pod.
func (i *Image) Forget(uid types.UID) { delete(i.failures, uid) }

// Over says that the image can be forgotten, or else when that may be. The backoffs of pods are remembered until they
// are over: one that asks again does not shorten its own.
func (i *Image) Over(e *Env) (over bool, again time.Time) {
	if len(i.Waiting) > 0 || i.Stage.Under() || i.Look == Looking {
		return false, time.Time{}
	}
	for _, f := range i.failures { // order-free: the latest
		if at := f.RetryAt(e.Backoff); at.After(again) {
			again = at
		}
	}
	return !e.Now.Before(again), again
}
