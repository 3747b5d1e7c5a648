package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

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

// kubectl runs kubectl in the bed's namespace, as a user who may do everything, and gives what it
// prints.
func (b *bed) kubectl(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	repository, err := lab.Repository()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := lab.BuildKubernetes(t.Context(), repository, "kubectl", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	config, err := b.plane.Kubeconfig("user-of-"+b.name, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append([]string{"--kubeconfig", config, "--namespace", b.name}, args...)...)
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

// TestLogs is what users look at first: kubectl logs.
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
		out, complaints, err := b.kubectl(t, args...)
		if err != nil || out != want {
			t.Errorf("kubectl %v: %v %s\ngot  %q\nwant %q", args, err, complaints, out, want)
		}
	}
	show("first\nlast\n", "logs", "-f", "ends")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("following ended only after %s", took)
	}
	b.awaitPod(t, "talks", "is ready", ready)
	all, _, err := b.kubectl(t, "logs", "talks")
	if err != nil || strings.Count(all, "\n") != 6 || !strings.Contains(all, "careful\n") {
		t.Errorf("%v: %q", err, all)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(all, "\n"), "\n")
	show(strings.Join(lines[len(lines)-2:], "")+"\n", "logs", "talks", "--tail=2")
	show(all, "logs", "talks", "--since=1h")
	show(all[:7], "logs", "talks", "--limit-bytes=7")
	stamped, _, err := b.kubectl(t, "logs", "talks", "--timestamps", "--tail=1")
	if err != nil || !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d) .+\n$`).MatchString(stamped) {
		t.Errorf("%v: %q", err, stamped)
	}
	b.awaitPod(t, "crashes", "has crashed", func(p *v1.Pod) error {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	show("again\n", "logs", "crashes", "--previous")
	refuse := func(want string, args ...string) {
		t.Helper()
		if _, complaints, err := b.kubectl(t, args...); err == nil || !strings.Contains(complaints, want) {
			t.Errorf("kubectl %v: %v %q, want %q", args, err, complaints, want)
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
