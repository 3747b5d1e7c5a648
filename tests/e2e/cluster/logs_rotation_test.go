package cluster

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// rotates makes the agent rotate logs as often as it may be told to.
func rotates(files int) func(*setup) {
	return func(s *setup) {
		s.agent.Settings += fmt.Sprintf("containerLogMaxSize: 64Ki\ncontainerLogMaxFiles: %d\ncontainerLogMonitorInterval: 3s\ncontainerLogMaxWorkers: 2\n", files)
	}
}

// talks is a pod that writes so many rounds of lines, and what that is.
func (b *bed) talks(name, first, last string, rounds int) (p *v1.Pod, want string) {
	const lines = 300
	p = b.pod(name, func(s *v1.PodSpec) {
		work(first + strings.Repeat(fmt.Sprintf(" then lines %d then sleep 200ms", lines), rounds) + last)(s)
		s.RestartPolicy = v1.RestartPolicyNever
		s.TerminationGracePeriodSeconds = new(int64(0))
	})
	var round strings.Builder
	for n := range lines {
		fmt.Fprintln(&round, "line", n+1)
	}
	return p, strings.Repeat(round.String(), rounds)
}

// logFiles are the files of the log of the first incarnation of a pod's container: the rotated ones,
// oldest first, and then the current one.
func (b *bed) logFiles(t *testing.T, p *v1.Pod) []string {
	t.Helper()
	current := filepath.Join(b.Logs(), fmt.Sprintf("%s_%s_%s", p.Namespace, p.Name, p.UID), "app", "0.log")
	rotated := check.Value(filepath.Glob(current + ".*"))(t)
	slices.Sort(rotated)
	return append(rotated, current)
}

// rotations counts how often a log was rotated. One that is being compressed has up to three files at once.
func rotations(files []string) int {
	rotated := map[string]bool{}
	for _, f := range files[:len(files)-1] {
		rotated[strings.TrimSuffix(strings.TrimSuffix(f, ".tmp"), ".gz")] = true
	}
	return len(rotated)
}

// textOf is what a container wrote, of what is in a file of its log.
func textOf(t *testing.T, path string) string {
	t.Helper()
	data := check.Value(os.ReadFile(path))(t)
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			data, err = io.ReadAll(z)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	var text strings.Builder
	for line := range strings.Lines(string(data)) {
		text.WriteString(strings.SplitN(line, " ", 4)[3])
	}
	return text.String()
}

// wellKept says whether a log is kept as it is to be: the last rotated file as it was, those before it
// compressed, nothing else.
func wellKept(files []string, most int) error {
	if len(files) > most {
		return fmt.Errorf("%d files, want %d at the most: %v", len(files), most, files)
	}
	for i, f := range files[:len(files)-1] {
		if compressed := i < len(files)-2; strings.HasSuffix(f, ".gz") != compressed || strings.HasSuffix(f, ".tmp") {
			return fmt.Errorf("left: %v", files)
		}
	}
	return nil
}

// TestFollowersOfRotatedLogs: forty follow the logs of pods that write much while the agent rotates and
// compresses them. Each gets each byte, once. What is shown afterwards ends with what a kubelet shows,
// which is the current file alone (docs/decisions/0019).
//
//tier:real
func TestFollowersOfRotatedLogs(t *testing.T) {
	t.Parallel()
	const pods, followers, rounds, most = 4, 40, 100, 30
	b := started(t, "rotated", callable(t), rotates(most))
	var all []*v1.Pod
	var want string
	for i := range pods {
		p, text := b.talks(fmt.Sprintf("p%d", i), "print begin then await /go", "", rounds)
		all, want = append(all, b.create(t, p)), "begin\n"+text
	}
	// One that begins anew: what it said before is to be had too.
	p, before := b.talks("again", "print begin", " then exit 1", rounds/3)
	p.Spec.RestartPolicy = v1.RestartPolicyAlways
	again := b.create(t, p)
	for i := range pods {
		b.awaitPod(t, fmt.Sprintf("p%d", i), "is ready", ready)
	}
	sum := sha256.Sum256([]byte(want))
	client, at := b.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	b.followAll(ctx, t, client, at, pods, followers, sum[:]).Wait()
	for i, p := range all {
		files := b.logFiles(t, p)
		if err := wellKept(files, most); err != nil || len(files) < 5 {
			t.Errorf("p%d: %d files, %v", i, len(files), err)
		}
		s := b.do(t, nil, "logs", p.Name)
		if s.code != 0 || s.out != want {
			t.Errorf("p%d: kubectl logs shows %d bytes of %d: %s", i, len(s.out), len(want), s.err)
		}
		if now := textOf(t, files[len(files)-1]); !strings.HasSuffix(s.out, now) {
			t.Errorf("p%d: what is shown does not end with the current file", i)
		}
		t.Logf("p%d: %d files", i, len(files))
	}
	b.awaitPod(t, again.Name, "has begun anew", func(p *v1.Pod) error {
		return check.That(len(p.Status.ContainerStatuses) != 0 && p.Status.ContainerStatuses[0].RestartCount != 0, "not yet")
	})
	if s := b.do(t, nil, "logs", again.Name, "--previous"); s.code != 0 || s.out != "begin\n"+before {
		t.Errorf("kubectl logs --previous shows %d bytes of %d: %s", len(s.out), len(before)+6, s.err)
	}
}

// TestKilledWhileRotating kills the agent (kill -9) as soon as a log was renamed, again and again: no
// line is lost, and what was left half done is done by the next agent.
//
//tier:all a repetition of FollowersOfRotatedLogs
func TestKilledWhileRotating(t *testing.T) {
	t.Parallel()
	const rounds, most, kills = 200, 100, 6
	b := started(t, "killed-rotating", callable(t), rotates(most))
	p, want := b.talks("p", "print begin", "", rounds)
	p = b.create(t, p)
	b.awaitPod(t, "p", "is ready", ready)
	for i := range kills {
		had := rotations(b.logFiles(t, p))
		for deadline := time.Now().Add(patience); rotations(b.logFiles(t, p)) <= had; time.Sleep(200 * time.Microsecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no rotation before kill %d: %v", i, b.logFiles(t, p))
			}
		}
		b.kill(t)
		files := b.logFiles(t, p)
		_, err := os.Stat(files[len(files)-1])
		t.Logf("kill %d: %d files, is there a current one: %v", i, len(files), err == nil)
		b.start(t)
	}
	b.awaitPod(t, "p", "has ended", phase(v1.PodSucceeded))
	b.await(t, "the log is well kept", func() error { return wellKept(b.logFiles(t, p), most) })
	var got strings.Builder
	for _, f := range b.logFiles(t, p) {
		got.WriteString(textOf(t, f))
	}
	if got.String() != "begin\n"+want {
		t.Errorf("%d bytes of %d in %v", got.Len(), len(want)+6, b.logFiles(t, p))
	}
	if s := b.do(t, nil, "logs", "p"); s.code != 0 || s.out != "begin\n"+want {
		t.Errorf("kubectl logs shows %d bytes of %d: %s", len(s.out), len(want)+6, s.err)
	}
}
