package cluster

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestPreStopGoesOn: a preStop command that is not through at the end of the grace period goes on
// when SIGTERM comes, until its container is killed; then users are told that it failed.
//
//tier:real
func TestPreStopGoesOn(t *testing.T) {
	t.Parallel()
	asKubelet(t, "prestop", func(t *testing.T, b *bed, _ bool) {
		dir := t.TempDir()
		b.create(t, b.pod("web", func(s *v1.PodSpec) {
			work("append /f/order started then trap 0s then append /f/order SIGTERM then ignore")(s)
			s.TerminationGracePeriodSeconds = new(int64(8))
			s.Volumes = []v1.Volume{volume("f", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}})}
			s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("f")}
			s.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
				Exec: &v1.ExecAction{Command: strings.Fields("/work tick /f/order 100ms hook")},
			}}
		}))
		b.awaitPod(t, "web", "runs", phase(v1.PodRunning))
		b.awaitText(t, filepath.Join(dir, "order"), "started\n")
		b.remove(t, "web")
		b.awaitGone(t, "web")
		b.awaitEvent(t, "web", "FailedPreStopHook", "PreStopHook failed")
		text := check.Value(os.ReadFile(filepath.Join(dir, "order")))(t)
		// Ten lines a second, and two seconds after SIGTERM. On a slow machine the hook needs some to begin.
		if got := strings.ReplaceAll(string(text), "\n", " "); !regexp.MustCompile(`^started (hook )+SIGTERM (hook ){5,}$`).MatchString(got) {
			t.Errorf("in order: %s", got)
		}
	})
}
