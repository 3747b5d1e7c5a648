package page

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/whynot"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/timeline"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/browser"
)

var (
	desk  = browser.Look{Scheme: "light", Width: 1280, Height: 900}
	night = browser.Look{Scheme: "dark", Width: 1280, Height: 900}
	phone = browser.Look{Scheme: "dark", Width: 390, Height: 844}
)

// evil would do something, if it were more than a text.
const evil = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

// fake is a node that says what the test wants.
type fake struct {
	mu   sync.Mutex
	pods []podview.Pod
	tree admin.Tree
	line timeline.View
	away bool
}

func (f *fake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func ago(d time.Duration) time.Time { return time.Now().Add(-d) }

func on(d time.Duration) *time.Time {
	at := ago(d)
	return &at
}

// newFake has some pods and some actors.
func newFake(podCount, actorCount int) *fake {
	f := &fake{}
	for i := range podCount {
		name := fmt.Sprintf("web-%03d", i)
		p := podview.Pod{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Source: "api", Life: "Syncing", Phase: "Running", Ready: true, IP: "10.0.0.7",
			StartTime:  on(3 * time.Hour),
			Containers: []podview.Container{{Name: "app", Kind: "main", State: "running", Ready: true, Image: "app:1"}},
		}
		switch i {
		case 1:
			p.Ready, p.Restarts, p.Containers[0] = false, 4, podview.Container{Name: "app", Kind: "main", State: "waiting", Reason: "CrashLoopBackOff", Restarts: 4,
				Message: "back-off 40s restarting failed container", Last: &podview.End{ExitCode: 3, Reason: "Error"}}
			p.Why = &whynot.Answer{Text: `Container "app" is in a crash loop and waits for the end of its restart backoff: its last run terminated with exit code 3 (Error) 12s ago.`,
				Next: "See the logs of its last run: kubectl logs -n default web-1 -c app --previous.", Wrong: true}
		case 2:
			p.Phase, p.Ready, p.StartTime = "Pending", false, on(3*time.Second)
			p.Why = &whynot.Answer{Text: "The pod is starting: PullImage app:1, for 3s."}
		case 3:
			p.Name = evil
		}
		f.pods = append(f.pods, p)
	}
	crash := &kernel.CrashReport{
		Path: "n1/pods/uid-web-001", Kind: "pod", At: ago(time.Minute), Incarnation: 2, Reason: "index out of range [3]", Message: "pod.ActionDone", Detail: "ID:7",
		Last: []string{"12:00:00.000 pod.Assign", "12:00:01.000 pod.Wake"}, Stack: "actors/pod.(*pod).done\n\t/src/done.go:12 " + evil, Crashes: 2, RetryAfter: 4 * time.Second,
	}
	f.tree = admin.Tree{
		Node: "n1", Pools: []kernel.PoolState{{Name: "start", Size: 4, Held: 3, Waiting: 2}}, DeadLetters: 17, Dropped: 2, Crashes: []*kernel.CrashReport{crash}, Goroutines: 42,
		Actors: []kernel.ActorInfo{
			{Path: "n1", Kind: "node", Status: "Running"},
			{Path: "n1/images", Kind: "images", Status: "Running", Effects: []kernel.EffectInfo{{ID: 1, Kind: "PullImage", Object: "app:1", Lane: "pull/app:1", Phase: kernel.EffectStarted, Since: ago(3 * time.Second), Patience: time.Minute}}},
			{Path: "n1/pleg", Kind: "pleg", Status: "Running", Depth: 3, Oldest: on(8 * time.Second), Handling: "pleg.listed", Since: on(9 * time.Second)},
			{Path: "n1/pods", Kind: "pods", Status: "Running", Restarts: 1},
		},
	}
	for i := len(f.tree.Actors); i < actorCount; i++ {
		name := fmt.Sprintf("uid-web-%03d", i-4)
		a := kernel.ActorInfo{Path: "n1/pods/" + name, Kind: "pod", Label: "shop/web-" + name[len("uid-web-"):], Status: "Running", Handled: 100}
		if i == 5 {
			a.Status, a.Restarts, a.LastCrash = "Quarantined", 5, crash
		}
		if i == actorCount-1 {
			a.Depth, a.Oldest = 77, on(20*time.Second)
		}
		f.tree.Actors = append(f.tree.Actors, a)
	}
	last := ago(time.Second)
	f.line = timeline.View{Namespace: "shop", Name: "web-001", UID: "uid-web-001", Dropped: 120, DroppedAfter: 3, Entries: []timeline.Entry{
		{Seq: 1, At: ago(10 * time.Minute), Kind: "message", What: "pod.Assign", Text: "to run"},
		{Seq: 2, At: ago(10 * time.Minute), Kind: "call", By: "images", What: "PullImage", Object: "app:1", Phase: "finished", Took: 2340 * time.Millisecond, Waited: 300 * time.Millisecond},
		{Seq: 3, At: ago(9 * time.Minute), Kind: "call", What: "RunPodSandbox", Object: "shop/web-001", Phase: "finished", Took: 110 * time.Millisecond},
		{Seq: 124, At: ago(time.Minute), Last: &last, Count: 12, Kind: "call", By: "probes", What: "HTTPProbe", Object: "web-001/app", Phase: "finished", Took: 800 * time.Microsecond, Bad: true, Text: "readiness: HTTP probe failed with statuscode: 503"},
		{Seq: 125, At: ago(50 * time.Second), Kind: "event", What: "BackOff", Object: "app", Text: evil, Bad: true},
		{Seq: 126, At: ago(40 * time.Second), Kind: "status", What: "Syncing", Text: "phase=Running ready=False app=waiting(CrashLoopBackOff)#4"},
		{Seq: 127, At: ago(30 * time.Second), Kind: "crash", What: "panic", Object: "pod.ActionDone", Text: "index out of range [3]: restart", Bad: true},
		{Seq: 128, At: ago(2 * time.Second), Kind: "call", What: "CreateContainer", Object: "app", Phase: "running"},
	}}
	return f
}

// serve hands the page out as `troupe web` does, and gives its address.
func (f *fake) serve(t *testing.T) string {
	t.Helper()
	dir := check.Value(os.MkdirTemp("", "page-"))(t)
	t.Cleanup(func() { check.Error(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, admin.SocketName)
	node := check.Value(admin.Listen(admin.Config{
		Socket: socket,
		Tree: func() admin.Tree {
			f.mu.Lock()
			defer f.mu.Unlock()
			tree := f.tree
			tree.At = time.Now()
			return tree
		},
		Pods: func(context.Context) (podview.View, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.away {
				return podview.View{}, errors.New("it is quarantined")
			}
			return podview.View{Node: "n1", Ready: true, Pods: append([]podview.Pod{}, f.pods...)}, nil
		},
		Events: func(string) []admin.EventView { return nil },
		Timeline: func(pod string) (timeline.View, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if pod != string(f.line.UID) {
				return timeline.View{}, &timeline.UnknownError{Pod: pod}
			}
			return f.line, nil
		},
		Gone: func() []timeline.Listed {
			return []timeline.Listed{{Namespace: "shop", Name: "old", UID: "uid-old", Ended: on(time.Minute)}}
		},
		Letters: func() []timeline.Letter {
			return []timeline.Letter{{At: ago(time.Hour), To: "n1/pods/uid-old", Type: "pod.RuntimeHint", From: "actors/pods.(*pods).Receive", Count: 3, Last: on(time.Minute)}}
		},
	}))(t)
	web := check.Value(admin.ListenWeb(admin.WebConfig{Address: "127.0.0.1:0", Socket: socket}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	for _, serve := range []func(context.Context) error{node.Serve, web.Serve} {
		ended.Go(func() { check.Error(t, serve(ctx)) })
	}
	t.Cleanup(func() { cancel(); ended.Wait() })
	return web.URL()
}

const shown = `document.body.dataset.shown == %q`

func visit(p *browser.Tab, hash, view string) {
	browser.Eval[bool](p, fmt.Sprintf("(location.hash = %q, true)", hash))
	p.Await(view+" is shown", fmt.Sprintf(shown, view))
}

func (f *fake) lines(t *testing.T, p *browser.Tab, selector string, want ...string) {
	t.Helper()
	text := p.Text(selector)
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q:\n%s", selector, w, text)
		}
	}
}

// TestWhatIsShown reads each view as a user does.
//
//tier:real
func TestWhatIsShown(t *testing.T) {
	chromium := browser.New(t)
	for name, look := range map[string]browser.Look{"light": desk, "dark": night, "phone": phone} {
		t.Run(name, func(t *testing.T) {
			f := newFake(200, 208)
			p := browser.Open(t, chromium, f.serve(t), look)
			p.Await("pods", fmt.Sprintf(shown, "pods"))
			p.Shoot(name + "-pods")
			f.lines(t, p, "#pods-sum", "200 pods, 2 not ready")
			f.lines(t, p, "#pods-rows tr:nth-child(2)", "shop/web-001", "Running", "0/1", "4", "3h0m", "is in a crash loop")
			f.lines(t, p, "#pods-rows tr:nth-child(4)", evil)
			f.lines(t, p, "#gone-rows", "shop/old")
			p.Await("an answer", `document.querySelector("header").innerText.includes("as of")`)
			f.lines(t, p, "header", "troupe n1", "Pods 200", "Crashes 1", "Dead letters 17", "as of")
			if got := browser.Eval[string](p, "location.href"); strings.Contains(got, "secret") {
				t.Errorf("the secret is still in the address: %s", got)
			}

			visit(p, "#/pod/uid-web-001", "pod")
			p.Shoot(name + "-pod")
			f.lines(t, p, "#why-text", "is in a crash loop")
			f.lines(t, p, "#why-next", "kubectl logs -n default web-1 -c app --previous")
			f.lines(t, p, "#containers-rows", "CrashLoopBackOff; back-off 40s restarting failed container; the last run terminated with exit code 3 (Error)")
			f.lines(t, p, "#timeline-rows tr:nth-child(2)", "call of images", "PullImage app:1", "2.34s +300ms queued")
			f.lines(t, p, "#timeline-rows tr:nth-child(4)", "120 entries left out here")
			f.lines(t, p, "#timeline-rows tr:nth-child(5)", "HTTPProbe web-001/app ×12", "800µs", "503")
			f.lines(t, p, "#timeline-rows tr:nth-child(6)", evil)
			f.lines(t, p, "#timeline-rows tr:nth-child(9)", "CreateContainer app", "running ")

			visit(p, "#/actors", "actors")
			p.Shoot(name + "-actors")
			f.lines(t, p, "#actors-sum", "208 actors", "3 unhealthy", "80 messages waiting", "42 goroutines")
			f.lines(t, p, "#pools", "start 3/4 (2 wait)")
			f.lines(t, p, "#tree-rows", "PullImage app:1", "pleg.listed for ", "Quarantined")

			visit(p, "#/crashes", "crashes")
			p.Do(chromedp.Click(chromedp.CSS("#crashes summary")))
			p.Shoot(name + "-crashes")
			f.lines(t, p, "#crashes-rows", "index out of range [3]", "n1/pods/uid-web-001 (shop/web-001)", "pod.ActionDone", "12:00:01.000 pod.Wake", "/src/done.go:12", "next attempt after 4.00s")

			visit(p, "#/letters", "letters")
			p.Shoot(name + "-letters")
			f.lines(t, p, "#letters", "17 dead letters", "2 messages dropped", "pod.RuntimeHint", "n1/pods/uid-old", "actors/pods.(*pods).Receive", "3")
			if got := browser.Eval[string](p, "document.title"); strings.Contains(got, "owned") {
				t.Error("a name was run as a script")
			}
			check.Count(t, browser.Eval[int](p, "document.images.length"), 0, "%d images")
			if look.Width == phone.Width {
				if wide := browser.Eval[int](p, "document.documentElement.scrollWidth"); wide > int(look.Width) {
					t.Errorf("the page is %d pixels wide on a screen of %d", wide, look.Width)
				}
			}
		})
	}
}

// TestItIsLive sees changes come, filters, and an agent that goes and comes back.
//
//tier:real
func TestItIsLive(t *testing.T) {
	f := newFake(20, 30)
	p := browser.Open(t, browser.New(t), f.serve(t), desk)
	p.Await("pods", fmt.Sprintf(shown, "pods"))
	p.Do(chromedp.Click(chromedp.CSS("#pods-unready")))
	p.Await("two are left", `document.querySelectorAll("#pods-rows tr").length == 2`)
	f.change(func() { f.pods[1].Ready, f.pods[1].Why = true, nil })
	p.Await("one is left when the other is ready", `document.querySelectorAll("#pods-rows tr").length == 1`)
	p.Do(chromedp.Click(chromedp.CSS("#pods-unready")))
	browser.Eval[bool](p, `(() => { const i = document.querySelector("#pods-find"); i.value = "WEB-01"; i.dispatchEvent(new Event("input")); return true; })()`)
	p.Await("ten are found", `document.querySelectorAll("#pods-rows tr").length == 10`)

	f.change(func() { f.away = true })
	p.Await("it is said that the pods actor is silent", `document.querySelector("#trouble").innerText.includes("does not answer: it is quarantined")`)
	p.Shoot("silent")
	f.change(func() { f.away = false })
	p.Await("it is well again", `document.querySelector("#trouble").hidden`)

	browser.Eval[bool](p, `(location.hash = "#/pod/uid-none", true)`)
	p.Await("an unknown pod", `document.querySelector("#trouble").innerText.includes("not found on this node")`)
	visit(p, "#/pod/uid-web-001", "pod")
	p.Do(chromedp.Click(chromedp.CSS("#show-message")), chromedp.Click(chromedp.CSS("#newest-first")))
	p.Await("the newest is first", `document.querySelector("#timeline-rows tr").innerText.includes("CreateContainer")`)
	if got := p.Text("#timeline-rows"); strings.Contains(got, "pod.Assign") {
		t.Error("messages are shown")
	}
	f.change(func() {
		e := &f.line.Entries[7]
		e.Phase, e.Took = "finished", 2*time.Second
	})
	p.Await("the call has ended", `document.querySelector("#timeline-rows tr").innerText.includes("2.00s")`)
	p.Forgive() // the browser tells of answers that are errors
}

// TestManyActors: a tree of 10,000 is drawn and scrolled without its rows being in the page.
//
//tier:all size: ten thousand actors
func TestManyActors(t *testing.T) {
	f := newFake(200, 10_000)
	p := browser.Open(t, browser.New(t), f.serve(t), desk)
	p.Await("pods", fmt.Sprintf(shown, "pods"))
	visit(p, "#/actors", "actors")
	f.lines(t, p, "#actors-sum", "10,000 actors")
	if n := browser.Eval[int](p, `document.querySelectorAll("#tree-rows > *").length`); n < 10 || n > 100 {
		t.Errorf("%d rows are in the page", n)
	}
	took := browser.Eval[float64](p, `(() => { const box = document.querySelector("#tree"), began = performance.now();
		for (let i = 0; i < 100; i++) { box.scrollTop = i * 2400; box.dispatchEvent(new Event("scroll")); }
		return performance.now() - began; })()`)
	t.Logf("100 screens of 10,000 actors took %.0f ms", took)
	browser.Eval[bool](p, `(document.querySelector("#tree").scrollTop = 1e9, true)`)
	p.Await("the last one", `document.querySelector("#tree-rows").innerText.includes("web-9995")`)
	p.Shoot("many-actors")
	browser.Eval[bool](p, `(() => { const s = document.querySelector("#actors-order"); s.value = "mailbox"; s.dispatchEvent(new Event("change")); document.querySelector("#tree").scrollTop = 0; return true; })()`)
	p.Await("the fullest is first", `document.querySelector("#tree-rows > *").innerText.includes("77")`)
}

// TestStranger: without the secret the page says what to do, and shows nothing.
//
//tier:real
func TestStranger(t *testing.T) {
	f := newFake(3, 10)
	address, _, _ := strings.Cut(f.serve(t), "#")
	p := browser.Open(t, browser.New(t), address, desk)
	p.Await("what to do", `document.querySelector("#trouble").innerText.includes("open the URL that")`)
	if text := p.Text("body"); strings.Contains(text, "web-0") {
		t.Errorf("it shows %s", text)
	}
	p.Shoot("stranger")
	p.Forgive()
}
