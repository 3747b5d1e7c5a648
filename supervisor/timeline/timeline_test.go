package timeline

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

var t0 = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// world is a recorder and a clock, told as the kernel tells.
type world struct {
	*Recorder
	t  *testing.T
	at time.Time
	id kernel.EffectID
}

func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	c := Default("n")
	if change != nil {
		change(&c)
	}
	r := check.Value(New(c))(t)
	return &world{Recorder: r, t: t, at: t0}
}

func podOf(uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-" + uid, UID: types.UID(uid)}}
}

func (w *world) tell(path string, msg any) {
	w.at = w.at.Add(time.Millisecond)
	name := strings.TrimPrefix(fmt.Sprintf("%T", msg), "*")
	w.Deliver(w.at, path, name, msg)
}

func (w *world) assign(uid string) { w.tell("n/pods/"+uid, pod.Assign{Pod: podOf(uid)}) }

// result is what an actor is told of a call.
type result struct {
	id  kernel.EffectID
	err error
}

func (r result) Outcome() (kernel.EffectID, error) { return r.id, r.err }

// call is a call from its begin to its end: queued for q, then running for d.
func (w *world) call(path string, e kernel.EffectInfo, q, d time.Duration, end kernel.EffectPhase, err error) {
	w.id++
	e.ID, e.Phase = w.id, kernel.EffectQueued
	w.Effect(w.at, path, kernel.EffectQueued, e)
	w.at = w.at.Add(q)
	e.Phase = kernel.EffectStarted
	w.Effect(w.at, path, kernel.EffectStarted, e)
	if end == kernel.EffectStarted {
		return
	}
	w.at = w.at.Add(d)
	e.Phase = end
	w.Effect(w.at, path, end, e)
	w.Deliver(w.at, path, "result", result{w.id, err})
}

func (w *world) texts(pod string) []string {
	w.t.Helper()
	v := check.Value(w.Story(pod))(w.t)
	var out []string
	for _, e := range v.Entries {
		s := strings.Join(strings.Fields(fmt.Sprint(e.Kind, " ", e.By, " ", e.What, " ", e.Object, " ", e.Phase, " ", e.Text)), " ")
		if e.Took > 0 || e.Waited > 0 {
			s += fmt.Sprintf(" [%v+%v]%s", e.Waited, e.Took, e.WaitedFor)
		}
		if e.Count > 1 {
			s += fmt.Sprintf(" x%d", e.Count)
		}
		if e.Bad {
			s += " !"
		}
		out = append(out, s)
	}
	return out
}

func (w *world) want(pod string, want ...string) {
	w.t.Helper()
	if got := w.texts(pod); strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestStoryOfAPod(t *testing.T) {
	w := newWorld(t, nil)
	const own = "n/pods/u1"
	w.assign("u1")
	w.tell("n/images", images.Ensure{EnsureImage: pod.EnsureImage{Pod: podOf("u1"), Ask: imagepull.Request{Image: "app:1"}}})
	w.call("n/images", kernel.EffectInfo{Kind: "PullImage", Object: "app:1", WaitedFor: "pull"}, 20*time.Millisecond, time.Second, kernel.EffectFinished, errors.New("not found"))
	w.tell(own, pod.ImageAnswer{Container: "app", Image: imagepull.Status{State: imagepull.Failed, Image: "app:1", Reason: "ErrImagePull", Message: "not found"}})
	w.tell(own, pod.ImageAnswer{Container: "app", Image: imagepull.Status{State: imagepull.Ready, Image: "app:1"}})
	w.call("n/images", kernel.EffectInfo{Kind: "PullImage", Object: "app:1"}, 0, time.Second, kernel.EffectFinished, nil) // for others
	w.call("n/volumes", kernel.EffectInfo{Kind: "MountVolume", Object: "v", For: "u1"}, 0, 5*time.Millisecond, kernel.EffectFinished, nil)
	w.call(own, kernel.EffectInfo{Kind: "RunPodSandbox", Object: "web"}, 0, 200*time.Millisecond, kernel.EffectFinished, nil)
	w.call(own, kernel.EffectInfo{Kind: "CreateContainer", Object: "app"}, 0, 0, kernel.EffectStarted, nil)
	w.Record(port.Event{Pod: podOf("u1"), Reason: "Created", Container: "app", Message: "Container created", At: w.at})
	for _, slot := range []string{"", "network", ""} {
		w.call("n/probes", kernel.EffectInfo{Kind: "HTTPProbe", Object: "web/app", For: "u1", Lane: "readiness/1234", WaitedFor: slot}, 0, time.Millisecond, kernel.EffectFinished, errors.New("503"))
	}
	w.tell(own, pod.Probed{ID: "1", Health: probe.Health{Readiness: probe.Failure, Message: "503"}})
	w.tell("n/podset", podset.Reported{Report: pod.Report{UID: "u1", Life: "Syncing", Status: &v1.PodStatus{
		Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "app", RestartCount: 1}},
	}}})
	w.tell(own, pod.RuntimeHint{ID: "0123456789abcdef", Kind: observed.ContainerStoppedEvent})
	w.tell(own, pod.Wake{})
	w.tell(own, pod.Wake{})
	w.Crash(w.at, own, &kernel.CrashReport{Message: "pod.Wake", Reason: "index", RetryAfter: time.Second})
	w.call("n/gc", kernel.EffectInfo{Kind: "RemoveContainer", Object: "x"}, 0, 1, kernel.EffectFinished, nil)
	w.call("n/pods/u1/below", kernel.EffectInfo{Kind: "Other"}, 0, 1, kernel.EffectFinished, nil)
	want := []string{
		"message pod.Assign to run",
		"call images PullImage app:1 finished not found [20ms+1s]pull !",
		"message pod.ImageAnswer app: ErrImagePull: not found !",
		"message pod.ImageAnswer app: app:1 is present",
		"call volumes MountVolume v finished [0s+5ms]",
		"call RunPodSandbox web finished [0s+200ms]",
		"call CreateContainer app running",
		"event Created app Container created",
		"call probes HTTPProbe web/app finished readiness: 503 [0s+1ms]network x3 !",
		"message pod.Probed readiness fails: 503 !",
		"status Syncing phase=Running app=waiting#1",
		"message pod.RuntimeHint container stopped 0123456789ab",
		"message pod.Wake x2",
		"crash panic pod.Wake index: restart, next try in 1s !",
	}
	got := w.texts("default/web-u1")
	want[13] = got[len(got)-1] // the kernel's word for a restart
	w.want("default/web-u1", want...)
	w.want("u1", want...)
	w.want("web-u1", want...)
}

func TestCallsThatEndBadly(t *testing.T) {
	w := newWorld(t, nil)
	w.assign("u1")
	own := "n/pods/u1"
	w.call(own, kernel.EffectInfo{Kind: "StopContainer"}, 0, 30*time.Second, kernel.EffectExpired, errors.New("no answer within 30s"))
	w.Effect(w.at.Add(time.Second), own, kernel.EffectLate, kernel.EffectInfo{ID: w.id, Kind: "StopContainer", Phase: kernel.EffectLate})
	w.id++
	e := kernel.EffectInfo{ID: w.id, Kind: "StartContainer"}
	w.Effect(w.at, own, kernel.EffectQueued, e)
	w.Effect(w.at.Add(time.Second), own, kernel.EffectDropped, e)
	w.Effect(w.at, own, kernel.EffectQueued, kernel.EffectInfo{ID: 99, Kind: "Watch", Standing: true})
	w.Deliver(w.at, own, "late", result{id: 1234})
	w.want("u1", "message pod.Assign to run",
		"call StopContainer late no answer within 30s [0s+31s] !",
		"call StartContainer dropped [0s+1s]")
	check.Equal(t, len(w.flying), 0, "%d calls are waited for", len(w.flying))
}

func TestWhichPod(t *testing.T) {
	w := newWorld(t, nil)
	for _, p := range []struct{ ns, name, uid string }{{"a", "web", "1"}, {"b", "web", "2"}, {"a", "db", "3"}, {"a", "db", "4"}} {
		w.tell("n/pods/"+p.uid, pod.Assign{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: p.name, UID: types.UID(p.uid)}}})
	}
	for name, want := range map[string]string{"a/web": "1", "b/web": "2", "2": "2", "db": "4", "a/db": "4", "3": "3"} {
		check.Equal(t, string(check.Value(w.Story(name))(t).UID), want, "%s", name)
	}
	_, err := w.Story("web")
	if _, is := errors.AsType[*AmbiguousError](err); !is || err.Error() != `pod "web" is ambiguous: give one of a/web, b/web` {
		t.Error(err)
	}
	for _, name := range []string{"", "/", "c/web", "none", "a/"} {
		_, err := w.Story(name)
		if _, is := errors.AsType[*UnknownError](err); !is {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestPodsThatHaveEndedAreRemembered(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Ended = 3 })
	for i := range 6 {
		uid := fmt.Sprint("u", i)
		w.assign(uid)
		if i < 5 {
			w.tell("n/podset", podset.Finished{Finished: pod.Finished{UID: types.UID(uid)}})
		}
	}
	var got []string
	for _, l := range w.List() {
		got = append(got, string(l.UID))
	}
	check.Equal(t, fmt.Sprint(got), "[u4 u3 u2]", "remembered are %v", got)
	if v, err := w.Story("u4"); err != nil || v.Ended == nil {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := w.Story("u5"); err != nil {
		t.Error(err)
	}
	check.Fails(t, check.Err(w.Story("u0")), "the first is still there")
}

func TestDeadLetters(t *testing.T) {
	w := newWorld(t, nil)
	for range 3 {
		w.DeadLetter(t0, "n/pods/u1", "pod.Wake")
	}
	for i := range 2 * lettersKept {
		w.DeadLetter(t0, fmt.Sprint("n/pods/x", i), "pod.Wake")
	}
	all := w.Letters()
	if len(all) != lettersKept || all[len(all)-1].To != fmt.Sprint("n/pods/x", 2*lettersKept-1) {
		t.Errorf("%d letters, the last %+v", len(all), all[len(all)-1])
	}
	w = newWorld(t, nil)
	for range 3 {
		w.DeadLetter(t0, "n/pods/u1", "pod.Wake")
	}
	if all := w.Letters(); len(all) != 1 || all[0].Count != 3 || all[0].Last == nil {
		t.Errorf("%+v", all)
	}
}

// TestBounds does at random what a node does, and looks at what is promised.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, func(c *Config) {
			c.Entries, c.Bytes, c.Ended, c.Pods = leastEntries+rapid.IntRange(0, 60).Draw(rt, "entries"), rapid.IntRange(20_000, 200_000).Draw(rt, "bytes"), 3, 12
		})
		open := map[kernel.EffectID]string{}
		for range rapid.IntRange(1, 400).Draw(rt, "steps") {
			uid := fmt.Sprint("u", rapid.IntRange(0, 20).Draw(rt, "pod"))
			text := strings.Repeat("x", rapid.IntRange(0, 2*textLimit).Draw(rt, "text"))
			switch rapid.IntRange(0, 6).Draw(rt, "what") {
			case 0:
				w.assign(uid)
			case 1:
				w.Record(port.Event{Pod: podOf(uid), Reason: text[:len(text)/9], Message: text, At: w.at})
			case 2:
				w.tell("n/podset", podset.Finished{Finished: pod.Finished{UID: types.UID(uid)}})
			case 3:
				w.id++
				w.Effect(w.at, "n/pods/"+uid, kernel.EffectQueued, kernel.EffectInfo{ID: w.id, Kind: "K", Object: text})
				open[w.id] = uid
			case 4:
				if id := kernel.EffectID(rapid.IntRange(1, int(w.id)+1).Draw(rt, "id")); open[id] != "" {
					w.Effect(w.at, "n/pods/"+open[id], kernel.EffectFinished, kernel.EffectInfo{ID: id, Kind: "K"})
					w.Deliver(w.at, "n/pods/"+open[id], "r", result{id, errors.New(text)})
				}
			case 5:
				w.tell("n/images", images.Ensure{EnsureImage: pod.EnsureImage{Pod: podOf(uid), Ask: imagepull.Request{Image: text}}})
			case 6:
				w.tell("n/pods/"+uid, pod.VolumesAnswer{Volumes: volumeplan.Volumes{State: volumeplan.Failed, Message: text}})
			}
			w.check(rt)
		}
	})
}

func (w *world) check(t *rapid.T) {
	sum := 0
	for uid, s := range w.timelines {
		bytes := 0
		for i := range s.entries {
			bytes += s.entries[i].cost()
			if i > 0 && s.entries[i].seq <= s.entries[i-1].seq {
				t.Fatalf("%s: entry %d after %d", uid, s.entries[i].seq, s.entries[i-1].seq)
			}
		}
		if bytes != s.bytes || len(s.entries) > w.limit {
			t.Fatalf("%s: %d bytes, counted %d; %d entries of %d", uid, bytes, s.bytes, len(s.entries), w.limit)
		}
		if s.dropped > 0 && s.entries[firstKept-1].seq > firstKept+near*8 && s.entries[0].seq != 1 {
			t.Fatalf("%s: the begin is gone", uid)
		}
		sum += bytes
	}
	if sum != w.bytes || sum > w.c.Bytes && len(w.timelines) > 1 {
		t.Fatalf("%d bytes, counted %d, of %d", sum, w.bytes, w.c.Bytes)
	}
	if len(w.timelines) > w.c.Pods || len(w.ended) > w.c.Ended {
		t.Fatalf("%d pods, %d of them ended", len(w.timelines), len(w.ended))
	}
	for image, of := range w.images {
		for _, s := range of {
			if w.timelines[s.uid] != s {
				t.Fatalf("%s waits for %s and is forgotten", s.uid, image)
			}
		}
	}
}

// TestCrashLoopKeepsItsBegin: the first entries and the newest are there after a thousand restarts.
func TestCrashLoopKeepsItsBegin(t *testing.T) {
	w := newWorld(t, nil)
	w.assign("u1")
	for i := range 1000 {
		for _, kind := range []string{"CreateContainer", "StartContainer", "ContainerStatus"} {
			w.call("n/pods/u1", kernel.EffectInfo{Kind: kind, Object: "app"}, 0, time.Millisecond, kernel.EffectFinished, nil)
		}
		w.Record(port.Event{Pod: podOf("u1"), Reason: "BackOff", Message: fmt.Sprint("back-off ", i), Warning: true, At: w.at})
	}
	v, err := w.Story("u1")
	if err != nil || v.Entries[0].What != "pod.Assign" || v.Entries[4].Text != "back-off 0" {
		t.Fatalf("%v: it begins with %+v", err, v.Entries[:5])
	}
	last := v.Entries[len(v.Entries)-1]
	if last.Text != "back-off 999" || v.Dropped+uint64(len(v.Entries)) != 4001 || v.DroppedAfter != firstKept {
		t.Errorf("%d dropped after %d, %d kept, the last %+v", v.Dropped, v.DroppedAfter, len(v.Entries), last)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{{}, {Node: "n"}, {Node: "n", Entries: 10, Bytes: 1, Pods: 1}, {Node: "n", Entries: 96, Bytes: 1, Pods: 1, Ended: -1}} {
		check.Fails(t, check.Err(New(c)), "%+v is taken", c)
	}
}

// BenchmarkDeliver is what a message costs that is of no pod, and one that is.
func BenchmarkDeliver(b *testing.B) {
	r := check.Value(New(Default("n")))(b)
	for name, path := range map[string]string{"other": "n/pleg", "pod": "n/pods/u1"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if i%2 == 0 {
					r.Deliver(t0, path, "pod.Wake", pod.Wake{})
				} else {
					r.Deliver(t0, path, "pod.RuntimeSeen", pod.RuntimeSeen{})
				}
			}
		})
	}
}

// TestHundredPodsTakeLittle measures what a node of 100 pods with full timelines keeps.
func TestHundredPodsTakeLittle(t *testing.T) {
	before := heap()
	w := newWorld(t, nil)
	for i := range 100 {
		uid := fmt.Sprintf("6c42b72c-bf9b-ea60-9cf6-%012d", i)
		w.assign(uid)
		for n := range 2 * w.c.Entries {
			w.call("n/pods/"+uid, kernel.EffectInfo{Kind: "CreateContainer", Object: fmt.Sprint("app-", n)}, 0, time.Millisecond, kernel.EffectFinished, nil)
			w.Record(port.Event{Pod: podOf(uid), Reason: "BackOff", Message: fmt.Sprintf("Back-off restarting failed container app in pod web_default(%s), %d", uid, n), Warning: true, At: w.at})
		}
	}
	const limit = 4 << 20
	if took := heap() - before; took > limit || w.limit != w.c.Entries {
		t.Errorf("100 pods take %d KiB, and each may have %d entries", took>>10, w.limit)
	} else {
		t.Logf("100 pods take %d KiB", took>>10)
	}
	runtime.KeepAlive(w)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
