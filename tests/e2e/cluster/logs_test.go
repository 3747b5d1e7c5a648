package cluster

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// serves makes the agent answer the apiserver over HTTPS, at a port of its own.
func serves(s *setup) {
	port, err := lab.FreePort()
	if err != nil {
		panic(err)
	}
	s.agent.Port = port
	s.agent.Settings += fmt.Sprintf("authentication: {x509: {clientCAFile: %s}}\n", s.plane.CAFile())
}

// TestLogs is what users look at first: kubectl logs.
//
//tier:real
func TestLogs(t *testing.T) {
	t.Parallel()
	p := plane(t)
	b := started(t, "logs", func(s *setup) { s.plane = p; serves(s) })
	if n := b.node(t); n.Status.DaemonEndpoints.KubeletEndpoint.Port == 0 {
		t.Error("the node does not say where it serves")
	}
	b.create(t, b.pod("talks", work("lines 5 then warn careful then sleep")))
	b.create(t, b.pod("crashes", work("print again then exit 1")))
	b.create(t, b.pod("no-image", func(s *v1.PodSpec) { s.Containers[0].Image = "registry.invalid/none:1" }))
	ends := b.pod("ends", work("print first then sleep 3s then print last then exit 0"))
	ends.Spec.RestartPolicy = v1.RestartPolicyNever
	b.create(t, ends)
	b.awaitPod(t, "ends", "runs", phase(v1.PodRunning))
	began := time.Now()
	show := func(want string, args ...string) {
		t.Helper()
		if s := b.do(t, nil, args...); s.code != 0 || s.out != want {
			t.Errorf("kubectl %v: %+v, want %q", args, s, want)
		}
	}
	show("first\nlast\n", "logs", "-f", "ends")
	check.AtMost(t, time.Since(began), 30*time.Second, "following ended only after")
	b.awaitPod(t, "talks", "is ready", ready)
	s := b.do(t, nil, "logs", "talks")
	all := s.out
	if s.code != 0 || strings.Count(all, "\n") != 6 || !strings.Contains(all, "careful\n") {
		t.Errorf("%+v", s)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(all, "\n"), "\n")
	show(strings.Join(lines[len(lines)-2:], "")+"\n", "logs", "talks", "--tail=2")
	show(all, "logs", "talks", "--since=1h")
	show(all[:7], "logs", "talks", "--limit-bytes=7")
	stamped := b.do(t, nil, "logs", "talks", "--timestamps", "--tail=1")
	if stamped.code != 0 || !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d) .+\n$`).MatchString(stamped.out) {
		t.Errorf("%+v", stamped)
	}
	b.awaitPod(t, "crashes", "has crashed", func(p *v1.Pod) error {
		return check.That(len(p.Status.ContainerStatuses) != 0 && p.Status.ContainerStatuses[0].RestartCount != 0, "not yet")
	})
	show("again\n", "logs", "crashes", "--previous")
	refuse := func(want string, args ...string) {
		t.Helper()
		if s := b.do(t, nil, args...); s.code == 0 || !strings.Contains(s.err, want) {
			t.Errorf("kubectl %v: %+v, want %q", args, s, want)
		}
	}
	refuse(`previous terminated container "app" in pod "talks" not found`, "logs", "talks", "--previous")
	refuse(`container "app" in pod "no-image" is waiting to start`, "logs", "no-image")
	b.awaitPod(t, "ends", "has ended", phase(v1.PodSucceeded))
	show("first\nlast\n", "logs", "ends")
	for _, name := range []string{"talks", "crashes", "no-image", "ends"} {
		b.remove(t, name)
		b.awaitGone(t, name)
	}
}
