package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// web is a pod with a web server whose / answers what the file says that is named like the pod, and
// 503 while it is not there.
func web(name, probes string) string {
	return Manifest(name, 1, `
  containers:
  - name: main
    image: $WEB
    env: [{name: CONTENT, value: /f/`+name+`}]
    ports: [{name: web, containerPort: 8080}]
    volumeMounts: [{name: f, mountPath: /f}]
`+probes)
}

// work is a pod that runs steps.
func work(name, steps, probes string) string {
	return strings.Replace(restarts(name, "Always", steps), "  volumes:", probes+"\n  volumes:", 1)
}

func (p Pod) isReady() error {
	return check.That(p.Ready, "it is not ready")
}

func (p Pod) isNotReady() error {
	if p.Ready {
		return errors.New("it is ready")
	}
	return p.Running()
}

// touch makes one of the test's own files.
func (b *bed) touch(t *testing.T, file string) {
	write(t, filepath.Join(b.dir, file), []byte("fine\n"))
}

func (b *bed) unlink(t *testing.T, file string) {
	t.Helper()
	check.Fatal(t, os.Remove(filepath.Join(b.dir, file)))
}

// awaitEvent waits until the pod has an event with a reason, and words in its message.
func (b *bed) awaitEvent(t *testing.T, name, reason, words string) {
	t.Helper()
	b.await(t, "event "+reason+" of "+name, func() error {
		events := check.Must(b.Events(t.Context(), name))
		for _, e := range events {
			if e.Reason == reason && strings.Contains(e.Message, words) {
				return nil
			}
		}
		return fmt.Errorf("there are %+v; wanted is one with %q", events, words)
	})
}

// TestProbes shows that commands, web servers and open ports make a container ready, and not ready
// any more; that one that does not live is restarted; and that a probe that hangs is its own pod's
// trouble alone.
//
//tier:real
func TestProbes(t *testing.T) {
	onNewest(t, func(t *testing.T, release lab.Release) {
		b := started(t, release)
		// Only the probe of "hangs" ends by its timeout: on a busy machine a command of a second or two is no news.
		b.touch(t, "alive")
		b.touch(t, "lives-long")
		b.apply(t, "hangs.yaml", work("hangs", "sleep", `
    readinessProbe: {exec: {command: [/work, sleep]}, periodSeconds: 1, timeoutSeconds: 2}`))
		b.apply(t, "http.yaml", web("http", `
    readinessProbe: {httpGet: {path: /, port: web}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 1}`))
		b.apply(t, "exec.yaml", work("exec", "sleep", `
    readinessProbe: {exec: {command: [/work, cat, /f/ready]}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 1}`))
		b.apply(t, "tcp.yaml", web("tcp", `
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 60}`))
		b.apply(t, "closed.yaml", web("closed", `
    readinessProbe: {tcpSocket: {port: 8081}, periodSeconds: 1}`))
		b.apply(t, "lives.yaml", work("lives", "sleep", `
    livenessProbe: {exec: {command: [/work, cat, /f/alive]}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 2}
    startupProbe: {exec: {command: [/work, cat, /f/lives-long]}, periodSeconds: 1, timeoutSeconds: 20}`))

		b.awaitPod(t, "tcp", "is ready", Pod.isReady)
		b.awaitPod(t, "lives", "is ready", Pod.isReady)
		for _, name := range []string{"http", "exec", "closed", "hangs"} {
			b.awaitPod(t, name, "running but not ready", Pod.isNotReady)
		}
		b.touch(t, "http")
		b.touch(t, "ready")
		b.awaitPod(t, "http", "is ready", Pod.isReady)
		b.awaitPod(t, "exec", "is ready", Pod.isReady)
		b.awaitEvent(t, "closed", "Unhealthy", "Readiness probe failed: dial tcp")
		b.awaitEvent(t, "hangs", "Unhealthy", "timed out after 2s")

		// A restart of the agent changes nothing of that, from the first moment that it is said. Until
		// then the agent says that it does not know.
		b.kill(t)
		b.start(t)
		for name, ready := range map[string]bool{"tcp": true, "http": true, "exec": true, "lives": true, "closed": false, "hangs": false} {
			p := b.awaitPod(t, name, "was looked at", func(p Pod) error {
				return check.That(p.Phase != "Unknown", "it is not known yet")
			})
			if p.Running() != nil || p.Ready != ready || p.Restarts != 0 {
				t.Errorf("after a restart of the agent pod %s is %+v; ready is to be %v", name, p, ready)
			}
		}

		b.unlink(t, "http")
		b.unlink(t, "ready")
		b.awaitPod(t, "http", "is not ready any more", Pod.isNotReady)
		b.awaitPod(t, "exec", "is not ready any more", Pod.isNotReady)
		b.awaitEvent(t, "http", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
		b.awaitEvent(t, "exec", "Unhealthy", "Readiness probe failed: work [cat /f/ready]: open /f/ready")

		b.unlink(t, "alive")
		b.awaitEvent(t, "lives", "Unhealthy", "Liveness probe failed: work [cat /f/alive]: open /f/alive")
		b.awaitEvent(t, "lives", "Killing", "Container main failed liveness probe, will be restarted")
		b.awaitLines(t, "lives", 2)
		b.touch(t, "alive")
		b.awaitPod(t, "lives", "was restarted, and is ready", func(p Pod) error {
			if p.Restarts == 0 {
				return errors.New("it was not restarted")
			}
			return p.isReady()
		})
		view := check.Value(b.Pods(t.Context()))(t)
		for _, p := range view.Pods {
			if p.Restarts > 0 && !strings.HasPrefix(p.Name, "lives") {
				t.Errorf("pod %s was restarted %d times: readiness restarts nothing", p.Name, p.Restarts)
			}
		}
	})
}
