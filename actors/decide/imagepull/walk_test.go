package imagepull_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// walk is a node with one image, whose runtime gives it for one credential only. It performs what is decided, and keeps
// what is on disk over the ends of agents.
type walk struct {
	*imagepull.Image
	t      rapid.TB
	env    imagepull.Env
	intent *imagepull.Intent
	// file: the intent is on disk. record is what a record says of who may use the image.
	file   bool
	record record
	// has: the runtime has the image. late: it may have it later, by a pull that was not answered. running: it is pulling
	// it, for this agent or an earlier one, with that credential.
	has, late bool
	running   int
	with      imagepull.Credential
	// failedAt is when a pull failed last for a pod, with these credentials; want are all requests that are not answered.
	failedAt map[types.UID]time.Time
	failed   map[types.UID]map[imagepull.Credential]bool
	want     map[string]*imagepull.Waiter
}

// record is what is on disk of who may use the image.
type record uint8

const (
	none   record = iota // each pod: it was there before
	nobody               // each pod needs a pull of its own
	owners
)

var (
	noon  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	right = imagepull.Credential{Username: "right"}
	creds = []imagepull.Credential{{}, right, {Username: "wrong"}, {Username: "other"}}
)

const img = "reg.io/app:1"

func env() imagepull.Env {
	return imagepull.Env{
		Now: noon, Backoff: imagepull.DefaultBackoff(), FreshFor: 5 * time.Second, LookEvery: 20 * time.Second, Plugins: true,
	}
}

func waiter(pod string, policy v1.PullPolicy) *imagepull.Waiter {
	return &imagepull.Waiter{
		Pod:     &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod, UID: types.UID(pod)}},
		Ask:     imagepull.Request{Container: "app", Image: img, Policy: policy},
		Secrets: &imagepull.Fit{Known: true},
	}
}

func newWalk(t rapid.TB) *walk {
	return &walk{
		Image: imagepull.New(img), t: t, env: env(), failedAt: map[types.UID]time.Time{},
		failed: map[types.UID]map[imagepull.Credential]bool{}, want: map[string]*imagepull.Waiter{},
	}
}

// verdicts let nobody have an image of which it is not known how it came.
func (w *walk) verdicts() []imagepull.Verdict {
	out := make([]imagepull.Verdict, len(w.Waiting))
	for n := range w.Waiting {
		out[n] = imagepull.Allowed
		if w.Waiting[n].State != imagepull.Brought && w.record != owners {
			out[n] = imagepull.Refused
		}
	}
	return out
}

// decide performs what is to be done now, and holds that nobody is forgotten.
func (w *walk) decide() {
	p := w.Next(w.Waiting, w.verdicts(), &w.env)
	for _, x := range p.LookUp {
		x.Begun(w.env.Now)
	}
	for _, x := range p.Ready {
		if !w.has {
			w.t.Fatalf("%s gets an image that is not there", x.Pod.Name)
		}
		w.Serve(x, true)
		delete(w.want, x.Pod.Name)
	}
	w.Leave(func(x *imagepull.Waiter) bool { return x.State == imagepull.Served })
	if p.Look {
		w.Look = imagepull.Looking
	}
	for _, x := range p.HeldUp {
		if reason, _, until := w.Status(x, &w.env); reason == "" || !until.After(w.env.Now) {
			w.t.Fatalf("%s waits for %q until %v", x.Pod.Name, reason, until)
		}
	}
	if len(p.Pull) > 0 && !w.Stage.Under() {
		w.Queue(w.env.Now)
		w.Begin(p.Pull, true, &w.env)
		if w.intent == nil {
			w.intent = &imagepull.Intent{}
		}
		if w.intent.Begin() {
			w.intent.Had(w.hasID())
		}
	}
	for _, x := range w.Waiting {
		waits := w.Look == imagepull.Looking || x.Lookup == imagepull.LookingUp || w.Stage.Under() ||
			slices.Contains(p.HeldUp, x) || !p.Again.IsZero()
		if !waits {
			w.t.Fatalf("%s is forgotten: %+v", x.Pod.Name, p)
		}
	}
	if w.has && w.record == none && !w.file {
		w.t.Fatal("the image came by a pull, and each pod may use it")
	}
	for name, x := range w.want {
		if !slices.Contains(w.Waiting, x) {
			w.t.Fatalf("the request of %s is lost", name)
		}
	}
}

func (w *walk) hasID() string {
	if w.has {
		return "id"
	}
	return ""
}

func (w *walk) try() {
	if !w.file {
		w.t.Fatal("the runtime is asked, and no intent is on disk")
	}
	w.with = w.Try()
	w.intent.Ask()
	w.running++
	if w.running > 1 {
		w.t.Fatal("two pulls of one image")
	}
	for uid, at := range w.failedAt {
		due := at.Add(imagepull.DefaultBackoff().Base)
		alone := !slices.ContainsFunc(w.Waiting, func(x *imagepull.Waiter) bool { return x.Pod.UID != uid })
		if alone && len(w.Waiting) > 0 && w.failed[uid][w.with] && w.env.Now.Before(due) {
			w.t.Fatalf("%s pulls again with what has just failed", uid)
		}
	}
}

// answered is the end of the call that runs.
func (w *walk) answered(how string) {
	w.running--
	w.Look = imagepull.NotLooking
	silent := how == "silence"
	if w.late = w.late || silent && w.with == right; w.with == right && how == "pulled" {
		w.has, w.record, w.file, w.intent = true, owners, false, nil
		if len(w.Worked(w.env.Now, w.env.Now)) == 0 {
			w.record = nobody
		}
		return
	}
	if w.GivenUp() {
		w.End()
		w.settle(silent)
		return
	}
	if w.Failed(imagepull.Failure{Text: how, MayGoOn: silent}) {
		w.try()
		return
	}
	concerned := w.Concerned(&w.env)
	w.settle(silent)
	for _, x := range concerned {
		w.Fail(x, w.Why()(x), false, &w.env)
		if w.failed[x.Pod.UID] == nil || !w.failedAt[x.Pod.UID].Equal(w.env.Now) {
			w.failed[x.Pod.UID] = map[imagepull.Credential]bool{}
		}
		w.failedAt[x.Pod.UID] = w.env.Now
		for o := range x.Offers() {
			w.failed[x.Pod.UID][o.Credential] = true
		}
	}
}

// settle ends an intent by what the runtime has now. open: the pull may still bring it.
func (w *walk) settle(open bool) {
	if w.intent.Fail(open, w.env.Now) {
		w.file, w.intent = false, nil
		return
	}
	w.resolve()
}

func (w *walk) resolve() {
	switch w.intent.Settle(w.hasID(), w.env.Now) {
	case imagepull.IntentRecords:
		w.record, w.file, w.intent = nobody, false, nil
	case imagepull.IntentGoes:
		w.file, w.intent, w.late = false, nil, false // nothing comes after so long
	case imagepull.IntentStays:
	}
}

// kill ends the agent. The next one finds what is on disk and in the runtime, and pods ask again. actor: only the actor
// was restarted, so the call that runs is its own, too.
func (w *walk) kill(actor bool) {
	w.Image, w.intent = imagepull.New(img), nil
	switch {
	case w.running > 0 && actor:
		w.Inherit(w.env.Now)
	case w.running > 0:
		w.running, w.has = 0, w.has || w.with == right // it ends without the agent, which never hears of it
	}
	if w.file {
		if w.intent = imagepull.LeftIntent(w.env.Now); !w.Stage.Under() {
			w.resolve()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.want)) {
		w.ask(name, w.want[name].Ask.Policy, w.want[name].Found)
	}
}

func (w *walk) ask(pod string, policy v1.PullPolicy, found imagepull.Found) {
	x := waiter(pod, policy)
	x.Begun(w.env.Now)
	x.Gave(found)
	w.want[pod] = x
	w.Waiting = append(w.Waiting, x)
}

// do has one thing happen, if it can happen now.
func (w *walk) do(op string) {
	switch {
	case op == "seen" && w.Look == imagepull.Looking:
		w.Look = imagepull.NotLooking
		for _, x := range w.See(&observed.Image{ID: "id"}, w.has, w.env.Now) {
			w.Fail(x, "it is not there", false, &w.env)
		}
	case op == "unseen" && w.Look == imagepull.Looking:
		w.Look = imagepull.NotLooking
		w.NotSeen("no answer", &w.env)
	case op == "looked up":
		for _, x := range w.Waiting {
			if x.Lookup == imagepull.LookingUp {
				w.Part(x)
				x.Gave(x.Found)
			}
		}
	case op == "noted" && w.Stage == imagepull.Noting:
		w.file = true
		w.Become(imagepull.Asking)
	case op == "not noted" && w.Stage == imagepull.Noting:
		w.Exhaust("disk full")
		w.settle(false)
		for _, x := range w.Concerned(&w.env) {
			w.Fail(x, "disk full", false, &w.env)
		}
	case op == "asked" && w.Stage == imagepull.Asking && len(w.Waiting) == 0:
		w.End()
		w.settle(false)
	case op == "asked" && w.Stage == imagepull.Asking:
		w.try()
	case (op == "pulled" || op == "refused" || op == "silence") && w.running > 0:
		w.answered(op)
	case op == "came late":
		w.has = w.has || w.late
	case op == "settled" && w.intent != nil && w.intent.Stage == imagepull.IntentLate:
		w.resolve()
	case op == "killed" || op == "crashed":
		w.kill(op == "crashed")
	}
	w.decide()
}

// TestWalk: whatever pods ask for, the runtime answers and ends in between, no waiter is forgotten, an image is pulled
// once at a time and never without a file that says so, what failed is not tried again at once, a request leaves only
// with its image, and an image that came by a pull is never one for all.
func TestWalk(t *testing.T) {
	ops := []string{
		"ask", "ask", "leave", "later", "seen", "unseen", "looked up", "noted", "noted", "not noted", "asked", "asked", "pulled",
		"pulled", "refused", "silence", "came late", "settled", "killed", "crashed",
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWalk(t)
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			op := rapid.SampledFrom(ops).Draw(t, "op")
			switch {
			case op == "ask":
				policy := rapid.SampledFrom([]v1.PullPolicy{v1.PullAlways, v1.PullIfNotPresent, v1.PullNever}).Draw(t, "policy")
				c := rapid.SampledFrom(creds).Draw(t, "with")
				w.ask(fmt.Sprint("p", n), policy, imagepull.Found{Offers: []imagepull.Offer{{Credential: c}}})
			case op == "leave" && len(w.Waiting) > 0:
				gone := rapid.SampledFrom(w.Waiting).Draw(t, "who")
				w.Leave(func(x *imagepull.Waiter) bool { return x == gone })
				delete(w.want, gone.Pod.Name)
				if w.Forget(gone.Pod.UID); len(w.Waiting) == 0 && w.Stage.Calls() && !w.GivenUp() {
					w.GiveUp()
				}
			case op == "later":
				w.env.Now = w.env.Now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "seconds")) * time.Second)
			}
			w.do(op)
		}
	})
}

// TestKilledAtEachStep: the agent, or only the actor, ends after each step of a pull. The pod gets its image, and a pod
// with another credential does not get it without one of its own.
func TestKilledAtEachStep(t *testing.T) {
	way := []string{"seen", "noted", "asked", "pulled", "seen"}
	for at := range len(way) + 1 {
		for _, end := range []string{"killed", "crashed"} {
			w := newWalk(t)
			w.ask("mine", v1.PullIfNotPresent, imagepull.Found{Offers: []imagepull.Offer{{Credential: right}}})
			w.decide()
			for _, op := range slices.Concat(way[:at], []string{end}, way, []string{"looked up"}, way, way) {
				w.do(op)
				w.env.Now = w.env.Now.Add(time.Second)
			}
			w.ask("other", v1.PullIfNotPresent, imagepull.Found{Offers: []imagepull.Offer{{Credential: creds[2]}}})
			w.record = min(w.record, nobody) // whose credential it was, does not help this one
			for _, op := range slices.Concat(way[:3], []string{"refused"}, way[:3]) {
				w.do(op)
				w.env.Now = w.env.Now.Add(time.Second)
			}
			if w.want["mine"] != nil || w.want["other"] == nil {
				t.Errorf("%s after %d steps: waiting are %v", end, at, slices.Sorted(maps.Keys(w.want)))
			}
		}
	}
}
