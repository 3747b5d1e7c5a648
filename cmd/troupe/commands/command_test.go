//go:build linux && !nonode

package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/timeline"
	"github.com/troupe-dev/troupe/tests/check"
)

// serveNode serves a node of two pods and gives its root directory.
func serveNode(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	began := time.Now().Add(-12 * time.Second)
	s := check.Value(admin.Listen(admin.Config{
		Socket: admin.SocketIn(root),
		Tree: func() admin.Tree {
			return admin.Tree{Node: "n", At: time.Now(), DeadLetters: 3, Crashes: []*kernel.CrashReport{{
				Path: "n/pods/u1", At: began, Reason: "index out of range", Message: "pod.Wake", Stack: "pod.go:1\n\tat 2", Crashes: 1, RetryAfter: time.Second,
				Last: []string{"12:00:00.000 pod.Assign"},
			}}, Actors: []kernel.ActorInfo{
				{Path: "/n", Status: "Running"},
				{Path: "/n/images", Status: "Running", Effects: []kernel.EffectInfo{
					{ID: 2, Kind: "PullImage", Object: "app:1", Phase: kernel.EffectStarted, Since: began},
					{ID: 3, Kind: "PullImage", Object: "", Phase: kernel.EffectStarted, Since: began},
					{ID: 4, Kind: "Events", Phase: kernel.EffectStarted, Since: began, Standing: true}}},
				{Path: "/n/pods/u1", Kind: "pod", Label: "default/web", Status: "Running", Effects: []kernel.EffectInfo{
					{ID: 1, Kind: "RunPodSandbox", Phase: kernel.EffectStarted, Since: began}}},
			}}
		},
		Pods: func(context.Context) (podview.View, error) {
			return podview.View{Node: "n", Ready: true, Pods: []podview.Pod{
				{Namespace: "default", Name: "web", UID: "u1", Phase: "Pending", Containers: []podview.Container{
					{Name: "app", Kind: "main", State: "waiting", Reason: "ContainerCreating", Image: "app:1"}}},
				{Namespace: "other", Name: "web", UID: "u2", Phase: "Pending", Containers: []podview.Container{}},
			}}, nil
		},
		Events: func(string) []admin.EventView { return nil },
		Timeline: func(pod string) (timeline.View, error) {
			if pod == "web" {
				return timeline.View{}, &timeline.AmbiguousError{Pod: pod, Pods: []string{"default/web", "other/web"}}
			}
			if pod != "default/web" {
				return timeline.View{}, &timeline.UnknownError{Pod: pod}
			}
			return timeline.View{Namespace: "default", Name: "web", UID: "u1", Entries: []timeline.Entry{
				{Seq: 1, At: began, Kind: "call", What: "RunPodSandbox", Object: "default/web", Phase: "running"},
			}}, nil
		},
		Gone: func() []timeline.Listed { return nil },
		Letters: func() []timeline.Letter {
			return []timeline.Letter{{At: began, From: "actors/pods.(*pods).hint", To: "n/pods/u0", Type: "pod.RuntimeHint"}}
		},
	}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		check.Error(t, <-ended)
	})
	return root
}

func TestCommands(t *testing.T) {
	root := serveNode(t)
	for _, c := range []struct {
		args []string
		want []string
		not  string
	}{
		{[]string{"pods"}, []string{"default     web", "other", "default/web: in progress: PullImage app:1 for 12s, RunPodSandbox for 12s\n"}, "\x1b"},
		{[]string{"pods", "-n", "default"}, []string{"default     web"}, "other"},
		{[]string{"pods", "-o", "wide"}, []string{"UID", "u1"}, "\x1b"},
		{[]string{"tree"}, []string{"node n at", "└─ default/web (u1)", "‼ RunPodSandbox: running for 12", "HUNG?"}, "\x1b"},
		{[]string{"timeline", "default/web"}, []string{"default/web (u1): Pending, not ready", "RunPodSandbox default/web   running 12"}, "\x1b"},
		{[]string{"crashes"}, []string{"n/pods/u1: index out of range\n  on pod.Wake", "next attempt after 1s", "messages before it: 12:00:00.000 pod.Assign", "    pod.go:1\n", "Dead letters (messages to stopped actors): 3", "actors/pods.(*pods).hint"}, "\x1b"},
		{[]string{"tree", "--wiring"}, []string{"pleg        gc          RuntimeBack\n"}, "\x1b"},
		{[]string{"version"}, []string{"troupe devel", "linux/"}, "\x1b"},
	} {
		args := c.args
		if args[0] != "version" {
			args = append(args, "--root-dir", root)
		}
		out, err := command(t.Context(), args...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", args, want, out)
			}
		}
		if strings.Contains(out, c.not) {
			t.Errorf("%v: %q in\n%s", args, c.not, out)
		}
	}
}

// TestCompletion: a shell is told the names of the pods that the node has, and nothing if there is no node.
func TestCompletion(t *testing.T) {
	for root, want := range map[string]string{
		serveNode(t): "default/web\n", t.TempDir(): ":4\nCompletion ended",
	} {
		out, err := command(t.Context(), "__complete", "timeline", "--root-dir", root, "")
		if err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("got %v and\n%s, want %q first", err, out, want)
		}
	}
}

// TestInPlaceOfTheKubelet: a program with the kubelet's name is troupe node, and says its version as tools read it.
func TestInPlaceOfTheKubelet(t *testing.T) {
	for _, tt := range []struct {
		program string
		args    []string
		want    string
	}{
		{"kubelet", []string{"--version"}, `^Kubernetes v1\.36\.\d+[-\w.+]*\n$`},
		{"kubelet", []string{"--version=raw"}, `^Kubernetes v1\.36\.\d+[-\w.+]* \(troupe .*\)\n$`},
		{"troupe", []string{"node", "--version"}, `^Kubernetes v1\.36\.\d+[-\w.+]*\n$`},
		{"troupe", []string{"--version"}, `^troupe `},
		{"kubelet", []string{"--version=false", "--config", "/nowhere"}, "/nowhere"},
		{"kubelet", []string{"--version=x"}, `"x": must be true, false or raw`},
		{"kubelet", []string{"pods"}, `unknown command "pods" for "kubelet"`},
	} {
		var out bytes.Buffer
		c := commandOf(tt.program)
		c.SetArgs(tt.args)
		c.SetOut(&out)
		if err := c.ExecuteContext(t.Context()); err != nil {
			out.WriteString(err.Error())
		}
		if !regexp.MustCompile(tt.want).MatchString(out.String()) {
			t.Errorf("%s %v: %s", tt.program, tt.args, out.String())
		}
	}
}

func TestJSON(t *testing.T) {
	root := serveNode(t)
	for _, args := range [][]string{{"pods", "--json"}, {"pods", "-o", "json", "-n", "default"}, {"tree", "--json"}} {
		out, err := command(t.Context(), append(args, "--root-dir", root)...)
		var v struct {
			Node string
			Pods []any
		}
		if err != nil || json.Unmarshal([]byte(out), &v) != nil || v.Node != "n" {
			t.Errorf("%v: %v %s", args, err, out)
		}
		if want := map[int]int{2: 2, 5: 1}[len(args)]; args[0] == "pods" && len(v.Pods) != want {
			t.Errorf("%v: %d pods", args, len(v.Pods))
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"pods", "--root-dir", "/nowhere"}, "no troupe node answers at /nowhere/troupe.sock: is it running with --root-dir /nowhere?"},
		{[]string{"tree", "--root-dir", "/nowhere"}, "no troupe node answers at /nowhere/troupe.sock"},
		{[]string{"pods", "-o", "yaml"}, "-o yaml: unknown output format: must be wide or json"},
		{[]string{"pods", "web"}, "unknown command"},
		{[]string{"timeline"}, "accepts 1 arg(s)"},
		{[]string{"web", "--root-dir", "/nowhere"}, "no troupe node answers at /nowhere/troupe.sock"},
		{[]string{"crashes", "--root-dir", "/nowhere"}, "no troupe node answers at /nowhere/troupe.sock"},
		{[]string{"nothing"}, "unknown command"},
	} {
		out, err := command(t.Context(), c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("%v: %v, printed %q, want %s", c.args, err, out, c.want)
		}
	}
}

func TestTimelineOfWhichPod(t *testing.T) {
	root := serveNode(t)
	for pod, want := range map[string]string{"web": `pod "web" is ambiguous: give one of default/web, other/web`, "none": `pod "none" not found on this node`} {
		if out, err := command(t.Context(), "timeline", pod, "--root-dir", root); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: %v %s", pod, err, out)
		}
	}
	out, err := command(t.Context(), "timeline", "default/web", "--json", "--root-dir", root)
	var line admin.Timeline
	if err != nil || json.Unmarshal([]byte(out), &line) != nil || line.UID != "u1" || len(line.Entries) != 1 || line.Pod.Name != "web" {
		t.Errorf("%v %s", err, out)
	}
}

func TestWebPrintsItsAddress(t *testing.T) {
	root := serveNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	out := &cancelOnWrite{cancel: cancel}
	c := Root()
	c.SetArgs([]string{"web", "--root-dir", root})
	c.SetOut(out)
	if err := c.ExecuteContext(ctx); err != nil || !strings.HasPrefix(out.text.String(), "http://127.0.0.1:") || !strings.Contains(out.text.String(), "/#secret=") {
		t.Errorf("%v %s", err, out.text.String())
	}
}

// Ctrl-C is how a watch ends: no error.
func TestWatchEndsWithItsContext(t *testing.T) {
	root := serveNode(t)
	for _, args := range [][]string{{"pods", "--watch"}, {"tree", "-w"}, {"pods", "-w", "--json"}, {"timeline", "-w", "default/web"}, {"timeline", "-w", "--json", "default/web"}} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &cancelOnWrite{cancel: cancel}
		c := Root()
		c.SetArgs(append(args, "--root-dir", root))
		c.SetOut(out)
		if err := c.ExecuteContext(ctx); err != nil || !strings.Contains(out.text.String(), "web") && !strings.Contains(out.text.String(), "actors") {
			t.Errorf("%v: %v %s", args, err, out.text.String())
		}
	}
}

type cancelOnWrite struct {
	text   bytes.Buffer
	cancel context.CancelFunc
}

func (c *cancelOnWrite) Write(p []byte) (int, error) {
	defer c.cancel()
	return c.text.Write(p)
}
