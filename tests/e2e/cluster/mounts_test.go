package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// mountBelow makes a directory of this machine with another file system at "below".
func mountBelow(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	check.Fatal(t, os.Mkdir(below, 0o755))
	check.Fatal(t, syscall.Mount("tmpfs", below, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { check.Error(t, syscall.Unmount(below, syscall.MNT_DETACH)) })
	return dir
}

// readOnlyMount is a pod that mounts a directory of this machine read-only, and
// writes where another file system is mounted in it.
func readOnlyMount(b *bed, name, dir string, change func(*v1.VolumeMount)) *v1.Pod {
	return b.pod(name, func(s *v1.PodSpec) {
		work("write /v/below/" + name + " x then sleep")(s)
		s.RestartPolicy = v1.RestartPolicyNever
		s.Volumes = []v1.Volume{volume("v", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}})}
		s.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("v", func(m *v1.VolumeMount) { m.ReadOnly = true }, change)}
	})
}

func recursive(mode v1.RecursiveReadOnlyMode) func(*v1.VolumeMount) {
	return func(m *v1.VolumeMount) { m.RecursiveReadOnly = &mode }
}

// wrote says how the write of a readOnlyMount went, and what its status says of the mount.
func wrote(p *v1.Pod) (how string, mode v1.RecursiveReadOnlyMode) {
	if len(p.Status.ContainerStatuses) == 0 {
		return "", ""
	}
	s := &p.Status.ContainerStatuses[0]
	if len(s.VolumeMounts) > 0 && s.VolumeMounts[0].RecursiveReadOnly != nil {
		mode = *s.VolumeMounts[0].RecursiveReadOnly
	}
	switch {
	case s.State.Running != nil && s.Ready:
		return "works", mode
	case s.State.Terminated != nil:
		return s.State.Terminated.Message, mode
	}
	return "", mode
}

func (b *bed) awaitWrite(t *testing.T, name, how string, mode v1.RecursiveReadOnlyMode) {
	t.Helper()
	b.awaitPod(t, name, fmt.Sprintf("is shown with recursiveReadOnly %s, and its write %q", mode, how), func(p *v1.Pod) error {
		got, is := wrote(p)
		return check.That(got == how && is == mode, "it is %s, the write: %q", is, got)
	})
}

// TestRecursiveReadOnly mounts a directory in which another file system is mounted:
// the status says whether that is read-only too, and so it is (KEP-3857).
//
//tier:real
func TestRecursiveReadOnly(t *testing.T) {
	t.Parallel()
	asKubelet(t, "rro", func(t *testing.T, b *bed, _ bool) {
		dir := mountBelow(t)
		b.create(t, readOnlyMount(b, "disabled", dir, recursive(v1.RecursiveReadOnlyDisabled)))
		b.create(t, readOnlyMount(b, "not-said", dir, func(*v1.VolumeMount) {}))
		b.create(t, readOnlyMount(b, "possible", dir, recursive(v1.RecursiveReadOnlyIfPossible)))
		b.create(t, readOnlyMount(b, "enabled", dir, recursive(v1.RecursiveReadOnlyEnabled)))
		b.create(t, readOnlyMount(b, "part", dir, func(m *v1.VolumeMount) {
			recursive(v1.RecursiveReadOnlyEnabled)(m)
			m.MountPath, m.SubPath = "/v/below", "below"
		}))
		if !recursiveMounts(b.node(t)) {
			t.Fatalf("the node does not say that its runtime can: %+v", b.node(t).Status.RuntimeHandlers)
		}
		if f := b.node(t).Status.Features; f == nil || f.SupplementalGroupsPolicy == nil || !*f.SupplementalGroupsPolicy {
			t.Errorf("the node's features are %+v", f)
		}
		b.awaitWrite(t, "disabled", "works", v1.RecursiveReadOnlyDisabled)
		b.awaitWrite(t, "not-said", "works", v1.RecursiveReadOnlyDisabled)
		for _, name := range []string{"possible", "enabled", "part"} {
			b.awaitWrite(t, name, refusedWrite(name), v1.RecursiveReadOnlyEnabled)
		}
	})
}

func refusedWrite(name string) string {
	return fmt.Sprintf("work [write /v/below/%s x]: open /v/below/%[1]s: read-only file system\n", name)
}

// TestRecursiveReadOnlyAfterRestart: an agent finds containers that an earlier one made, and says the
// same of their mounts.
//
//tier:all a repetition of RecursiveReadOnly
func TestRecursiveReadOnlyAfterRestart(t *testing.T) {
	t.Parallel()
	b := started(t, "rro-restart")
	dir := mountBelow(t)
	add := func(name string, mode v1.RecursiveReadOnlyMode) {
		b.create(t, readOnlyMount(b, name, dir, recursive(mode)))
	}
	add("possible", v1.RecursiveReadOnlyIfPossible)
	runs := readOnlyMount(b, "runs", dir, recursive(v1.RecursiveReadOnlyIfPossible))
	work("sleep")(&runs.Spec)
	b.create(t, runs)
	check := func() {
		t.Helper()
		b.awaitWrite(t, "possible", refusedWrite("possible"), v1.RecursiveReadOnlyEnabled)
		b.awaitWrite(t, "runs", "works", v1.RecursiveReadOnlyEnabled)
	}
	check()
	b.kill(t)
	b.start(t)
	// When the next agent has brought up a pod, it has looked at those that were there.
	add("later", v1.RecursiveReadOnlyDisabled)
	b.awaitWrite(t, "later", "works", v1.RecursiveReadOnlyDisabled)
	check()
}

// TestRecursiveReadOnlyNotPossible is with a runtime that can't.
//
//tier:real
func TestRecursiveReadOnlyNotPossible(t *testing.T) {
	t.Parallel()
	b := started(t, "norro", func(s *setup) { s.release = lab.Containerd1 })
	dir := mountBelow(t)
	b.create(t, readOnlyMount(b, "possible", dir, recursive(v1.RecursiveReadOnlyIfPossible)))
	b.create(t, readOnlyMount(b, "enabled", dir, recursive(v1.RecursiveReadOnlyEnabled)))
	b.awaitWrite(t, "possible", "works", v1.RecursiveReadOnlyDisabled)
	const refusal = `failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, ` +
		`but it is not supported by the runtime`
	b.awaitVerdict(t, "enabled", []string{"Warning Failed: Error: " + refusal})
	b.awaitWrite(t, "enabled", "", v1.RecursiveReadOnlyDisabled)
	if recursiveMounts(b.node(t)) {
		t.Error("the node says that its runtime can")
	}
	if _, err := os.Stat(filepath.Join(dir, "below", "enabled")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the container ran: %v", err)
	}
}

// recursiveMounts says whether the node shows that its runtime has them.
func recursiveMounts(n *v1.Node) bool {
	for _, h := range n.Status.RuntimeHandlers {
		if h.Name == "" && h.Features != nil && h.Features.RecursiveReadOnlyMounts != nil {
			return *h.Features.RecursiveReadOnlyMounts
		}
	}
	return false
}
