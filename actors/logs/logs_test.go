package logs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/containerlogs"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/logs"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

const interval = 10 * time.Second

// rig is the actor alone, on a virtual clock. The rig plays pods, the disk and the
// runtime: one log, as what its files have.
type rig struct {
	*actortest.Rig
	actor *actortest.Actor[logs.Message]
	// files are those of the log by suffix, "" for the current one; open is what
	// the runtime writes to.
	files map[string]*string
	open  *string
	// runs is what pods say.
	runs bool
	// reopen is what the runtime answers; late is done although it says an error.
	reopen error
	late   bool
	// idle is a runtime that says it has done it, and has not.
	idle bool
	// slow: to compress takes until it is cancelled.
	slow bool
	// other: there is another log, which is too big. held: to look at a log takes until let is called for it.
	other bool
	held  map[port.LogRef]bool
	let   map[port.LogRef]func()
}

var web = port.LogRef{Namespace: "default", Pod: "web", UID: "u1", Container: "app", Attempt: 2}

var other = port.LogRef{Namespace: "default", Pod: "web", UID: "u1", Container: "side", Attempt: 0}

func newRig(t rapid.TB) *rig {
	first := ""
	r := &rig{Rig: actortest.New(t), files: map[string]*string{"": &first}, open: &first, runs: true}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[logs.Message]{
		Name: "logs", Policy: kernel.ForPods,
		Runner: r.Runner(kernel.Pool{Name: logs.Pool, Size: 1, MinHold: time.Minute, MaxHold: time.Minute, Unkept: true}),
		New: logs.New(&logs.Deps{
			Files: r, Runtime: r, Running: func(reply func([]*v1.Pod)) { reply(r.pods()) },
			Settings: logs.Settings{Policy: containerlogs.Policy{MaxSize: 10, MaxFiles: 3}, Interval: interval},
			Deadline: time.Minute, StepDeadline: time.Minute,
		}),
	})
	return r
}

func (r *rig) pods() []*v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Pod, UID: web.UID}}
	waits := v1.ContainerStatus{Name: "side", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}}
	c := v1.ContainerStatus{Name: web.Container, ContainerID: "containerd://c1", RestartCount: int32(web.Attempt)}
	if r.other {
		waits = v1.ContainerStatus{Name: "side", ContainerID: "containerd://c2"}
		waits.State.Running = &v1.ContainerStateRunning{}
	}
	if r.runs {
		c.State.Running = &v1.ContainerStateRunning{}
	}
	p.Status.ContainerStatuses = []v1.ContainerStatus{waits, c}
	return []*v1.Pod{p}
}

func (r *rig) LogSizes(_ context.Context, refs []port.LogRef, done func([]int64, error)) {
	sizes := make([]int64, len(refs))
	for i, ref := range refs {
		if ref == other {
			sizes[i] = 10
			continue
		}
		if ref != web {
			r.T.Fatalf("asked for %v", ref)
		}
		if sizes[i] = -1; r.files[""] != nil {
			sizes[i] = int64(len(*r.files[""]))
		}
	}
	r.Say("sizes")
	r.Soon(func() { done(sizes, nil) })
}

func (r *rig) RotatedLogs(_ context.Context, done func([]port.LogRef, error)) {
	r.Say("rotated")
	var out []port.LogRef
	if len(r.files) > 1 || r.files[""] == nil {
		out = append(out, web)
	}
	r.Soon(func() { done(out, nil) })
}

func (r *rig) LookAtLog(_ context.Context, ref port.LogRef, done func(containerlogs.Log, error)) {
	if r.held[ref] {
		delete(r.held, ref)
		r.let[ref] = func() { r.look(ref, done) }
		return
	}
	r.look(ref, done)
}

func (r *rig) look(ref port.LogRef, done func(containerlogs.Log, error)) {
	if ref == other {
		r.Soon(func() { done(containerlogs.Log{}, &port.Error{Kind: port.NotFound}) })
		return
	}
	var l containerlogs.Log
	for suffix, text := range r.files { // order-free: the plan sorts
		if suffix == "" {
			l.Current, l.Size = true, int64(len(*text))
			continue
		}
		l.Beside = append(l.Beside, suffix)
	}
	r.Soon(func() { done(l, nil) })
}

func (r *rig) StepLog(ctx context.Context, _ port.LogRef, step containerlogs.Step, done func(error)) {
	if _, compresses := step.(containerlogs.Compress); compresses && r.slow {
		r.Say("begins to compress")
		ctx.(interface{ AfterFunc(func()) func() bool }).AfterFunc(func() { r.Soon(func() { done(ctx.Err()) }) })
		return
	}
	r.Say("%s", strings.TrimPrefix(fmt.Sprintf("%T", step), "containerlogs."))
	switch s := step.(type) {
	case containerlogs.Remove:
		for _, suffix := range s.Suffixes {
			delete(r.files, suffix)
		}
	case containerlogs.Rotate:
		r.rename("", s.To)
	case containerlogs.Restore:
		if r.files[""] == nil {
			r.rename(s.From, "")
		}
	case containerlogs.Compress:
		if r.files[s.Suffix] == r.open {
			r.T.Fatalf("%s is compressed while it is written to", s.Suffix)
		}
		r.rename(s.Suffix, containerlogs.CompressedName(s.Suffix))
	case containerlogs.Reopen:
		r.T.Fatalf("the disk was told to reopen")
	}
	r.Soon(func() { done(nil) })
}

func (r *rig) rename(from, to string) {
	r.files[to] = r.files[from]
	delete(r.files, from)
}

func (r *rig) PruneLogs(context.Context, []port.LogRef, func(error)) {
	r.T.Fatalf("this actor prunes nothing")
}

func (r *rig) ReopenContainerLog(_ context.Context, id string, done func(error)) {
	r.Say("reopen %s", id)
	err := r.reopen
	if (err == nil || r.late) && !r.idle {
		if r.files[""] == nil {
			r.files[""] = new(string)
		}
		r.open = r.files[""]
	}
	r.Soon(func() { done(err) })
}

// names are the files that there are, in order.
func (r *rig) names() (out []string) {
	for suffix := range r.files { // order-free: sorted below
		out = append(out, suffix)
	}
	slices.Sort(out)
	return out
}

func (r *rig) want(t *testing.T, files []string, calls ...string) {
	t.Helper()
	check.Same(t, r.names(), files, "files")
	r.Want("calls", calls...)
}

func TestRotation(t *testing.T) {
	r := newRig(t)
	r.Advance(interval + time.Second)
	r.want(t, []string{""}, "rotated", "sizes") // nothing else while nothing is too big
	*r.open += "0123456789"
	r.Advance(interval)
	r.want(t, []string{"", "20260101-000020"}, "sizes", "Rotate", "reopen c1")
	*r.open += "0123456789 and more"
	r.Advance(interval)
	r.want(t, []string{"", "20260101-000020.gz", "20260101-000030"}, "sizes", "Rotate", "reopen c1", "Compress")
	*r.open += "0123456789"
	r.Advance(interval)
	r.want(t, []string{"", "20260101-000030.gz", "20260101-000040"}, "sizes", "Remove", "Rotate", "reopen c1", "Compress")
	r.runs = false
	*r.open += "0123456789"
	r.Advance(interval)
	r.want(t, []string{"", "20260101-000030.gz", "20260101-000040"}, "sizes")
}

// TestOvertaken: a program writes faster than its log can be compressed. No file gets bigger than it would in an
// interval, and no more of them are kept.
func TestOvertaken(t *testing.T) {
	r := newRig(t)
	r.Advance(time.Second)
	r.slow = true
	for range 6 {
		*r.open += "0123456789"
		r.Advance(interval)
		for suffix, text := range r.files { // order-free: each alone
			check.AtMost(t, len(*text), 10, "%q has so many bytes", suffix)
		}
		check.AtMost(t, len(r.files), 3, "files")
	}
	check.Equal(t, r.Logged(`"level":"warn"`), 0, "warnings")
	r.slow = false
	r.Forget()
	*r.open += "0123456789"
	r.Advance(interval)
	r.want(t, []string{"", "20260101-000100.gz", "20260101-000110"}, "sizes", "Remove", "Rotate", "reopen c1", "Compress")
}

// TestOvertakenInTheQueue: a compression that waits for its turn is given up too, and its log is rotated.
func TestOvertakenInTheQueue(t *testing.T) {
	r := newRig(t)
	r.files["20251231-220000"], r.files["20251231-230000"] = new(string), new(string)
	r.held, r.let = map[port.LogRef]bool{web: true, other: true}, map[port.LogRef]func(){}
	r.Advance(interval + time.Second)
	r.other = true
	r.Advance(interval)
	r.let[web]() // it is to be compressed, after the look at the other
	r.Settle()
	*r.open += "0123456789"
	r.Advance(interval)
	r.want(t, []string{"", "20251231-220000", "20251231-230000"}, "rotated", "sizes", "sizes", "sizes")
	r.other = false
	r.let[other]()
	r.Advance(time.Second)
	r.want(t, []string{"", "20251231-230000.gz", "20260101-000031"}, "Remove", "Rotate", "reopen c1", "Compress")
}

// TestRefused: a runtime that opens no new file is told to do so once a round, and
// the file is put back.
func TestRefused(t *testing.T) {
	for name, late := range map[string]bool{"not done": false, "done all the same": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.reopen, r.late = &port.Error{Kind: port.Unavailable, Verb: "ReopenContainerLog"}, late
			*r.open += "0123456789"
			r.Advance(interval + time.Second)
			files, calls := []string{""}, []string{"rotated", "sizes", "Rotate", "reopen c1", "Restore"}
			if late {
				files, calls = []string{"", "20260101-000010"}, calls[:4]
			}
			r.want(t, files, calls...)
			r.reopen = nil
			r.Advance(interval)
			if got := r.names(); len(got) != 2 || r.open != r.files[""] {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestMissing: somebody removed the file. The runtime is asked for one, and once
// if it makes none.
func TestMissing(t *testing.T) {
	r := newRig(t)
	delete(r.files, "")
	r.Advance(interval + time.Second)
	r.want(t, []string{""}, "rotated", "sizes", "reopen c1")
	r.idle = true
	delete(r.files, "")
	r.Advance(3 * interval)
	r.want(t, nil, "sizes", "reopen c1", "sizes", "sizes")
}

// TestLeft: what a killed agent left, of a container that has ended.
func TestLeft(t *testing.T) {
	r := newRig(t)
	r.runs = false
	r.rename("", "20251231-230000")
	r.files["20251231-220000"], r.files["20251231-220000.gz"], r.files["20251231-220000.tmp"] = new(string), new(string), new(string)
	r.Advance(interval + time.Second)
	r.want(t, []string{"", "20251231-220000.gz"}, "rotated", "sizes", "Restore", "Remove")
	r.Advance(interval)
	r.want(t, []string{"", "20251231-220000.gz"}, "sizes")
}

// TestCrashes: the actor crashes at any message; in the end all is as it is to be,
// and the runtime writes to the current file.
func TestCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		written := 0
		for range rapid.IntRange(1, 12).Draw(t, "looks") {
			r.actor.CrashAt(rapid.IntRange(0, 12).Draw(t, "crash"))
			r.reopen = nil
			if rapid.IntRange(0, 4).Draw(t, "refuses") == 0 {
				r.reopen, r.late = &port.Error{Kind: port.Other, Verb: "ReopenContainerLog"}, rapid.Bool().Draw(t, "late")
			}
			for range rapid.IntRange(0, 12).Draw(t, "bytes") {
				*r.open += string(rune('a' + written%26))
				written++
			}
			r.Advance(interval)
		}
		r.actor.CrashAt(0)
		r.reopen = nil
		r.Advance(30 * interval)
		if r.files[""] != r.open || len(r.files) > 3 {
			t.Fatalf("%q", r.names())
		}
		var all string
		for _, name := range append(r.names()[1:], "") {
			all += *r.files[name]
		}
		for i := range len(all) {
			check.Fatal(t, check.Is(all[i], byte('a'+(written-len(all)+i)%26), "%q, of %d bytes written", all, written))
		}
		if len(all) < min(written, 10) {
			t.Fatalf("%q, of %d bytes written", all, written)
		}
	})
}
