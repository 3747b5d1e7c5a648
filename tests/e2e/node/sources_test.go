package node

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestManifestURL shows that a web server's pods run, follow what it says, and outlive it.
//
//tier:real
func TestManifestURL(t *testing.T) {
	t.Parallel()
	var answer atomic.Pointer[string]
	set := func(text string) { answer.Store(&text) }
	list := func(pods ...string) string {
		return `{"apiVersion": "v1", "kind": "PodList", "items": [` + strings.Join(pods, ",") + `]}`
	}
	set(list(plain("one"), plain("two")))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := *answer.Load()
		if text == "" || r.Header.Get("X-Token") != "secret" {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, text)
	}))
	defer server.Close()
	b := started(t, lab.Containerd2, func(c *Config) {
		c.NoManifests = true
		c.Settings = fmt.Sprintf("staticPodURL: %s\nstaticPodURLHeader: {X-Token: [secret]}\nhttpCheckFrequency: 500ms\n", server.URL)
	})
	one, two := b.awaitRunning(t, "one"), b.awaitRunning(t, "two")
	check.Equal(t, one.Source, "http", "the pod's source")
	// No answer, and one that is no good, leave the pods as they are.
	for _, bad := range []string{"", "{", list(plain("one"), plain("Not_A_Name"))} {
		set(bad)
		b.awaitProblem(t, server.URL)
		b.unchanged(t, one, two)
	}
	set(list(plain("one"), plain("three")))
	b.awaitRunning(t, "three")
	b.awaitGone(t, "two", two.UID)
	b.unchanged(t, one)
	set(plain("alone")) // one pod that is no list
	b.awaitRunning(t, "alone")
	b.awaitGone(t, "one", one.UID)
}

// TestRunOnce shows that pods run to their end, and the agent with them.
//
//tier:real
func TestRunOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t, lab.Containerd2, func(c *Config) { c.Settings = "runOnce: true\n" })
	b.apply(t, "good.yaml", restarts("good", "Never", `exit, "0"`))
	b.apply(t, "fails.yaml", restarts("fails", "OnFailure", `turns, /f/turns, "2"`))
	check.Fatal(t, b.Launch())
	b.await(t, "the agent ends by itself", func() error { return check.That(b.Running() != nil, "it runs") })
	if err := b.Exit(); err != nil {
		t.Errorf("it ended with %v; want 0", err)
	}
	if len(b.lines("good")) != 1 || len(b.lines("fails")) != 2 {
		t.Errorf("good ran %d times, fails %d; want 1 and 2", len(b.lines("good")), len(b.lines("fails")))
	}
	check.None(t, b.look(t).Running(), "left running")
}

// TestCommands shows what people are shown: `troupe pods` and `troupe tree`, as text and as JSON, and
// one clear line when no agent runs.
//
//tier:real
func TestCommands(t *testing.T) {
	t.Parallel()
	b := started(t, lab.Containerd2)
	b.apply(t, "shown.yaml", plain("shown"))
	b.apply(t, "bad.yaml", "kind: [")
	b.awaitRunning(t, "shown")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"pods"}, []string{"shown-" + NodeName, "Running", "bad.yaml"}},
		{[]string{"pods", "--json"}, []string{`"name": "shown-` + NodeName + `"`, `"problems"`}},
		{[]string{"tree"}, []string{NodeName, "pods", "default/shown-" + NodeName}},
		{[]string{"tree", "--json"}, []string{`"actors"`, NodeName + "/pods"}},
		{[]string{"version"}, []string{"v"}},
	} {
		args := c.args
		if args[0] != "version" {
			args = append(args, "--root-dir", b.Root())
		}
		out, err := b.Command(t.Context(), args...)
		if err != nil {
			t.Error(err)
		}
		// Whether JSON is indented is nobody's business.
		squeeze := strings.NewReplacer(" ", "", "\n", "")
		for _, w := range c.want {
			if !strings.Contains(squeeze.Replace(out), squeeze.Replace(w)) {
				t.Errorf("troupe %s does not show %q:\n%s", strings.Join(c.args, " "), w, out)
			}
		}
	}
	check.Error(t, b.Stop(t.Context()))
	out, err := exec.CommandContext(t.Context(), b.config.Binary, "pods", "--root-dir", b.Root()).CombinedOutput()
	if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), b.Root()) {
		t.Errorf("without an agent: %v, %q; want one line that names the root directory", err, out)
	}
}
