package containerfiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func (l *lab) makeFiles(p *v1.Pod, c *v1.Container, attempt uint32, ips ...string) []containerplan.Mount {
	l.t.Helper()
	return l.made(p, c, attempt, ips...).Mounts
}

func (l *lab) made(p *v1.Pod, c *v1.Container, attempt uint32, ips ...string) (made port.MadeFiles) {
	l.t.Helper()
	check.Fatal(l.t, hosttest.Wait(func(done func(error)) {
		l.MakeFiles(l.t.Context(), port.MakeFiles{Pod: p, Container: c, Attempt: attempt, IPs: ips}, func(m port.MadeFiles, err error) {
			made = m
			done(err)
		})
	}))
	return made
}

func (l *lab) messageOf(p *v1.Pod, attempt uint32, fromLog bool) string {
	l.t.Helper()
	type result struct {
		said string
		err  error
	}
	got := make(chan result, 1)
	l.TerminationMessage(l.t.Context(), port.TerminationMessage{Pod: p, Container: "app", Attempt: attempt, FromLog: fromLog}, func(s string, err error) { got <- result{s, err} })
	r := <-got
	if r.err != nil {
		l.t.Fatal(r.err)
	}
	return r.said
}

func withMessagePath(p *v1.Pod) {
	p.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
}

func TestHostsFile(t *testing.T) {
	l := newLab(t)
	p := newPod(withMessagePath)
	check.Fatal(t, l.prepare(p))
	mounts := l.makeFiles(p, &p.Spec.Containers[0], 0)
	if len(mounts) != 2 || mounts[0].ContainerPath != "/etc/hosts" || mounts[1].ContainerPath != "/dev/termination-log" || mounts[0].ReadOnly {
		t.Fatalf("mounts %+v", mounts)
	}
	path := mounts[0].HostPath
	before, err := os.Stat(path)
	if err != nil || before.Mode() != 0o644 {
		t.Fatal(before.Mode(), err)
	}
	// The addresses come when the sandbox has them, into the very same file.
	check.Fatal(t,
		hosttest.Wait(func(done func(error)) {
			l.WriteHosts(t.Context(), port.WriteHosts{Pod: p, IPs: []string{"10.0.0.5"}}, done)
		}))
	want := check.Value(containerplan.HostsFile(p, []string{"10.0.0.5"}, ""))(t)
	stays := func() {
		t.Helper()
		after, err := os.Stat(path)
		if got := readFile(t, path); got != string(want) || err != nil || !os.SameFile(before, after) {
			t.Errorf("%v, same file %v, content\n%s", err, os.SameFile(before, after), got)
		}
	}
	stays()
	l.makeFiles(p, &p.Spec.Containers[0], 1) // its addresses are not known again
	stays()
	check.Fatal(t, os.WriteFile(path, []byte(strings.Repeat("mine\n", 100)), 0o600))
	l.makeFiles(p, &p.Spec.Containers[0], 2, "10.0.0.5")
	stays()

	own := p.Spec.Containers[0]
	for _, path := range []string{"/etc/hosts", "etc/hosts"} {
		own.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: path}}
		if m := l.makeFiles(p, &own, 0); len(m) != 1 || m[0].ContainerPath == "/etc/hosts" {
			t.Errorf("a container with an /etc/hosts of its own gets %+v", m)
		}
	}
	shared := newPod(func(p *v1.Pod) { p.UID, p.Spec.HostNetwork = "u2", true })
	check.Fatal(t, l.prepare(shared))
	m := l.makeFiles(shared, &shared.Spec.Containers[0], 0)
	if got := readFile(t, m[0].HostPath); len(m) != 1 || strings.Contains(got, containerplan.HostsFileHeader) || !strings.Contains(got, readFile(t, "/etc/hosts")) {
		t.Errorf("on the host's network: %+v\n%s", m, got)
	}
	check.Fatal(t, os.RemoveAll(filepath.Join(l.root, "kubelet/pods", string(p.UID))))
	if err := hosttest.Wait(func(done func(error)) {
		l.WriteHosts(t.Context(), port.WriteHosts{Pod: p, IPs: []string{"10.0.0.5"}}, done)
	}); err != nil {
		t.Errorf("of a pod that is gone: %v", err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	return string(check.Value(os.ReadFile(path))(t))
}

// TestNumberAfterLogs: who seems to be the first of a container that has logs gets the number after theirs.
func TestNumberAfterLogs(t *testing.T) {
	l := newLab(t)
	p := newPod(withMessagePath)
	check.Fatal(t, l.prepare(p))
	c := &p.Spec.Containers[0]
	check.Equal(t, l.made(p, c, 0).Attempt, 0, "the number of the first")
	for _, name := range []string{"2.log", "3.log.20260101-000000.gz", "other.log", "x"} {
		check.Fatal(t, os.WriteFile(filepath.Join(l.root, "logs", "default_web_u1", "app", name), nil, 0o600))
	}
	made := l.made(p, c, 0)
	check.Equal(t, made.Attempt, 4, "the number after those that have logs")
	check.Equal(t, filepath.Base(made.Mounts[1].HostPath), "4.termination", "its message")
	check.Equal(t, l.made(p, c, 1).Attempt, 1, "a number that somebody knows")
}

// TestMessageOfAKubelet: the file of a container that a kubelet made is where that has mounted it, below the pod's directory.
func TestMessageOfAKubelet(t *testing.T) {
	l := newLab(t)
	p := newPod(withMessagePath)
	check.Fatal(t, l.prepare(p))
	dir := filepath.Dir(l.makeFiles(p, &p.Spec.Containers[0], 3)[1].HostPath)
	check.Fatal(t, os.WriteFile(filepath.Join(dir, "1a2b3c4d"), []byte("said"), 0o600))
	secret := filepath.Join(t.TempDir(), "secret")
	check.Fatal(t, os.WriteFile(secret, []byte("secret"), 0o600))
	for file, want := range map[string]string{filepath.Join(dir, "1a2b3c4d"): "said", secret: "", "relative": "", "": ""} { // order-free: each on its own
		got := ""
		check.Fatal(t, hosttest.Wait(func(done func(error)) {
			l.TerminationMessage(t.Context(), port.TerminationMessage{Pod: p, Container: "app", Attempt: 3, File: file}, func(s string, err error) {
				got = s
				done(err)
			})
		}))
		check.Equal(t, got, want, "the message in %q", file)
	}
}

func TestTerminationMessage(t *testing.T) {
	l := newLab(t)
	p := newPod(withMessagePath)
	check.Fatal(t, l.prepare(p))
	path := l.makeFiles(p, &p.Spec.Containers[0], 3)[1].HostPath
	check.Equal(t, check.Value(os.Stat(path))(t).Mode(), 0o666, "whoever a container runs as may write it")
	log := filepath.Join(l.root, "logs", "default_web_u1", "app", "3.log")
	check.Fatal(t, os.WriteFile(log, []byte("2026-01-01T00:00:00Z stderr F from the log\n"), 0o600))
	check.Equal(t, l.messageOf(p, 3, false), "", "nothing was said, got")
	check.Equal(t, l.messageOf(p, 3, true), "from the log\n", "from the log")
	check.Fatal(t, os.WriteFile(path, []byte(strings.Repeat("x", 5000)+"end"), 0o600))
	if got := l.messageOf(p, 3, true); len(got) != 4096 || !strings.HasSuffix(got, "xend") {
		t.Errorf("%d bytes: %q", len(got), got[max(len(got)-10, 0):])
	}
	// A container whose create failed is made again as the same attempt.
	l.makeFiles(p, &p.Spec.Containers[0], 3)
	check.Equal(t, l.messageOf(p, 3, false), "", "of the one before")
	check.Equal(t, l.messageOf(p, 9, true), "", "of one that was never made")
	l.makeFiles(p, &p.Spec.Containers[0], 3+keptMessages)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("an old message is kept: %v", err)
	}
}

// TestTerminationMessageOfAnAttacker: a container that can reach the file on the host
// replaces it by something else; nothing is read through it, and nothing hangs.
func TestTerminationMessageOfAnAttacker(t *testing.T) {
	l := newLab(t)
	p := newPod(withMessagePath)
	check.Fatal(t, l.prepare(p))
	path := l.makeFiles(p, &p.Spec.Containers[0], 0)[1].HostPath
	check.Fatal(t, os.Remove(path))
	check.Fatal(t, unix.Mkfifo(path, 0o600))
	if got := l.messageOf(p, 0, false); got != "" { // or waits until the test is ended
		t.Errorf("of a pipe: %q", got)
	}
	check.Fatal(t, os.Remove(path))
	check.Fatal(t, os.Symlink("/etc/passwd", path))
	got := make(chan error, 1)
	l.TerminationMessage(t.Context(), port.TerminationMessage{Pod: p, Container: "app"}, func(s string, err error) {
		check.Equal(t, s, "", "of a link")
		got <- err
	})
	check.Fails(t, <-got, "a link that leads out of the pods' directory is followed")
}

// A container that is put into a running pod comes after the pod was prepared.
func TestFilesOfALaterContainer(t *testing.T) {
	l := newLab(t)
	p := newPod(withMessagePath)
	check.Fatal(t, l.prepare(p))
	later := p.Spec.Containers[0].DeepCopy()
	later.Name = "debug"
	mounts := l.makeFiles(p, later, 0)
	if info, err := os.Stat(mounts[1].HostPath); err != nil || info.Mode() != 0o666 {
		t.Errorf("%v, %v", info, err)
	}
}
