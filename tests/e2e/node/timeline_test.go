package node

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/timeline"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/browser"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// secret is in the environment of the pod, and nowhere in what the node shows.
const secret = "open-sesame-4711"

// told is a pod to which happens what operators ask about: its image is pulled, a volume mounted, its
// probe says no, and it crashes.
var told = strings.NewReplacer("env: [", "env: [{name: PASSWORD, value: "+secret+"}, ",
	"volumeMounts: [", "volumeMounts: [{name: scratch, mountPath: /scratch}, ",
	"  volumes: [", "  volumes: [{name: scratch, emptyDir: {}}, ").Replace(web("told", `    readinessProbe: {httpGet: {path: /, port: web}, periodSeconds: 1}
`))

// line asks for a timeline.
func (b *bed) line(t *testing.T, pod string) (admin.Timeline, error) {
	t.Helper()
	var line admin.Timeline
	out, err := b.Command(t.Context(), "timeline", pod, "--json", "--root-dir", b.Root())
	if err == nil {
		err = json.Unmarshal([]byte(out), &line)
	}
	return line, err
}

// awaitEntry waits until the timeline has an entry that is as wanted.
func (b *bed) awaitEntry(t *testing.T, pod, what string, wanted func(timeline.Entry) bool) admin.Timeline {
	t.Helper()
	var line admin.Timeline
	b.await(t, what+" in the timeline", func() error {
		line = check.Must(b.line(t, pod))
		for _, e := range line.Entries {
			if wanted(e) {
				return nil
			}
		}
		var all []string
		for _, e := range line.Entries {
			all = append(all, fmt.Sprint(e.Kind, " ", e.By, " ", e.What, " ", e.Object, " ", e.Phase, " ", e.Took, " ", e.Text))
		}
		return fmt.Errorf("there are:\n%s", strings.Join(all, "\n"))
	})
	return line
}

// done is a call that did what it was to do.
func done(by, what, object string) func(timeline.Entry) bool {
	return func(e timeline.Entry) bool {
		return e.Kind == "call" && e.By == by && e.What == what && strings.Contains(e.Object, object) && e.Phase == "finished" && !e.Bad && e.Took > 0
	}
}

func said(kind, what, words string) func(timeline.Entry) bool {
	return func(e timeline.Entry) bool {
		return e.Kind == kind && strings.Contains(e.What, what) && strings.Contains(e.Text, words)
	}
}

//tier:real
func TestTimeline(t *testing.T) {
	t.Parallel()
	b := started(t, lab.Containerd2)
	b.apply(t, "told.yaml", told)
	b.awaitPod(t, "told", "running but not ready", Pod.isNotReady)
	const pod = "told-" + NodeName

	b.awaitEntry(t, pod, "the failing probe", func(e timeline.Entry) bool {
		return e.By == "probes" && e.Bad && strings.HasPrefix(e.Text, "readiness: ") && strings.Contains(e.Text, "503") && e.Count > 1
	})
	for what, wanted := range map[string]func(timeline.Entry) bool{
		"the pull":       done("images", "PullImage", lab.WebImage),
		"the mount":      done("volumes", "MountVolume", "scratch"),
		"the sandbox":    done("", "RunPodSandbox", "told"),
		"the creation":   done("", "CreateContainer", "main"),
		"the start":      done("", "StartContainer", "main"),
		"an event":       said("event", "Started", "Container started"),
		"the assignment": said("message", "pod.Assign", "to run"),
		"a status":       said("status", "Syncing", "phase=Running ready=False main=running"),
	} {
		b.awaitEntry(t, pod, what, wanted)
	}
	var line admin.Timeline
	b.await(t, "why it is not ready", func() error {
		var err error
		if line, err = b.line(t, "default/"+pod); err != nil || line.Pod == nil || line.Pod.Why == nil {
			return fmt.Errorf("%w, %+v", err, line.Pod)
		}
		const want = `Container "main" is running, but its probe fails: Readiness probe failed: `
		why := line.Pod.Why
		return check.That(strings.HasPrefix(why.Text, want) && why.Wrong && why.Next != "", "%+v, want %s…", why, want)
	})
	b.looksInBrowser(t, "default/"+pod, string(line.UID))

	b.touch(t, "told")
	b.awaitPod(t, "told", "is ready", Pod.isReady)
	b.awaitEntry(t, pod, "that it is ready", said("status", "Syncing", "phase=Running ready=True"))
	b.killOne(t, "told")
	b.awaitPod(t, "told", "was restarted", func(p Pod) error {
		if p.Restarts == 0 {
			return fmt.Errorf("no restart")
		}
		return p.Running()
	})
	b.awaitEntry(t, pod, "the crash", said("message", "pod.RuntimeHint", "container stopped"))
	b.awaitEntry(t, pod, "the restart", said("status", "Syncing", "main=running#1"))

	// What people are shown, and who asks wrongly.
	out, err := b.Command(t.Context(), "timeline", pod, "--root-dir", b.Root())
	if err != nil || !strings.Contains(out, "RunPodSandbox") || !strings.Contains(out, "call of images") || strings.Contains(out, "\x1b") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log("\n" + out)
	if out, err := b.Command(t.Context(), "timeline", "nobody", "--root-dir", b.Root()); err == nil || !strings.Contains(out+err.Error(), `pod "nobody" not found on this node`) {
		t.Errorf("of nobody: %v %s", err, out)
	}
	for _, path := range []string{"/v1/tree", "/v1/pods", "/v1/events", "/v1/timeline?pod=" + string(line.UID)} {
		if text, err := b.get(t.Context(), path); err != nil || strings.Contains(string(text), secret) {
			t.Errorf("%s: %v; it shows the environment: %t", path, err, strings.Contains(string(text), secret))
		}
	}

	// One that is gone is remembered.
	b.remove(t, "told.yaml")
	b.awaitGone(t, "told", string(line.UID))
	b.await(t, "the end in the timeline", func() error {
		line, err := b.line(t, pod)
		if err == nil && line.Ended == nil {
			err = fmt.Errorf("it has not ended")
		}
		return err
	})
	if line, err := b.line(t, pod); err != nil || line.Pod != nil || len(line.Entries) < 20 {
		t.Errorf("%v %+v", err, line)
	}
	b.awaitEntry(t, pod, "the stop", done("", "StopPodSandbox", ""))
}

// crashed is what a pod shows whose actor has crashed: after some crashes, which are over in seconds, it is quarantined.
var crashed = regexp.MustCompile("its actor is (restarted|quarantined) after")

// TestCrashesAreShown has the actor of a pod panic: who looks sees where, and what it means.
//
//tier:real
func TestCrashesAreShown(t *testing.T) {
	t.Parallel()
	b := newBed(t, lab.Containerd2)
	b.SetFlags("--chaos-panic-pod", "default/told")
	b.start(t)
	b.apply(t, "told.yaml", told)
	const pod = "told-" + NodeName
	b.await(t, "the crash in the timeline", func() error {
		line, err := b.line(t, pod)
		switch {
		case err != nil:
			return err
		case line.Pod == nil || line.Pod.Why == nil || !line.Pod.Why.Wrong || !crashed.MatchString(line.Pod.Why.Text):
			return fmt.Errorf("%+v", line.Pod)
		}
		for _, e := range line.Entries {
			if e.Kind == "crash" && strings.Contains(e.Text, "panic requested with --chaos-panic-pod: restart, next try in") {
				return nil
			}
		}
		return fmt.Errorf("no crash among %+v", line.Entries)
	})
	out, err := b.Command(t.Context(), "crashes", "--root-dir", b.Root())
	if err != nil || !strings.Contains(out, "panic requested with --chaos-panic-pod") || !strings.Contains(out, "panicking).Receive") {
		t.Errorf("%v\n%s", err, out)
	}
	// Else nobody takes the pod down.
	check.Fatal(t, b.Stop(t.Context()))
	b.SetFlags()
	b.start(t)
	b.awaitRunning(t, "told")
}

// looksInBrowser looks at the page of the real node that `troupe web` hands out.
func (b *bed) looksInBrowser(t *testing.T, pod, uid string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	web := exec.CommandContext(ctx, b.config.Binary, "web", "--root-dir", b.Root())
	stdout := check.Value(web.StdoutPipe())(t)
	check.Fatal(t, web.Start())
	defer web.Wait() //nolint:errcheck // it is killed
	defer cancel()
	address := check.Value(bufio.NewReader(stdout).ReadString('\n'))(t)
	t.Run("browser", func(t *testing.T) {
		p := browser.Open(t, browser.New(t), strings.TrimSpace(address), browser.Look{Scheme: "light", Width: 1280, Height: 900})
		p.Await("the pod is listed", fmt.Sprintf("document.querySelector('#pods-rows').innerText.includes(%q)", pod))
		p.Await("why it is not ready", `document.querySelector("#pods-rows").innerText.includes("its probe fails")`)
		p.Shoot("real-pods")
		browser.Eval[bool](p, fmt.Sprintf("(location.hash = '#/pod/%s', true)", uid))
		p.Await("its timeline", `document.querySelector("#timeline-rows").innerText.includes("RunPodSandbox")`)
		p.Shoot("real-pod")
		check.Has(t, p.Text("#why-text"), "its probe fails", "why")
		browser.Eval[bool](p, "(location.hash = '#/actors', true)")
		p.Await("its actor", fmt.Sprintf("document.querySelector('#tree-rows').innerText.includes(%q)", pod))
		p.Shoot("real-actors")
	})
}
