package podplan

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
)

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// basePod is a pod with one main container a.
func basePod() *v1.Pod {
	grace := int64(30)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1"},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{{Name: "a", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent}},
		},
	}
}

func baseInput() Input {
	return Input{
		Now: t0, Pod: basePod(), Facts: Facts{Known: true},
		CrashPolicy: backoff.Policy{Base: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute},
		RetryPolicy: backoff.Policy{Base: time.Second, Max: time.Minute},
	}
}

// upInput is a pod whose sandbox, volumes and image are there.
func upInput() Input {
	in := baseInput()
	in.View.Sandboxes = []observed.Sandbox{{ID: "s0", State: observed.SandboxReady, Detailed: true, IPs: []string{"10.0.0.1"}, CreatedAt: t0.Add(-time.Hour)}}
	in.Volumes.State = volumeplan.Up
	in.Images.Set("a", imagepull.Status{State: imagepull.Ready, Image: "img:1", Ref: "sha256:1"})
	return in
}

// runInput is a pod that runs and has nothing to do.
func runInput() Input {
	in := upInput()
	in.View.Containers = []observed.Container{alive("a", 0)}
	return in
}

func alive(name string, attempt uint32) observed.Container {
	return observed.Container{
		ID: name + string(rune('0'+attempt)), SandboxID: "s0", Name: name, Attempt: attempt, State: observed.ContainerRunning,
		Detailed: true, CreatedAt: t0.Add(-time.Minute), StartedAt: t0.Add(-time.Minute),
	}
}

func exited(name string, attempt uint32, code int32, ago time.Duration) observed.Container {
	c := alive(name, attempt)
	c.State, c.ExitCode, c.FinishedAt = observed.ContainerExited, code, t0.Add(-ago)
	return c
}

// notes says of container a that it is written down why it is stopped.
func notes(in *Input, id string, cause podlife.RestartCause, written bool) {
	in.RestartNotes = map[string]podlife.RestartNote{"a": {ID: id, Cause: cause, Written: written}}
}

// said writes a plan down in words: actions, then what is waited for, then the
// outcome, the notes and the wake-up.
func said(out Output) string {
	var s []string
	for _, a := range out.Actions {
		s = append(s, word(a))
	}
	for _, w := range byKey(out.Waiting) {
		s = append(s, w.Key+": "+w.Value.Reason)
	}
	switch out.Outcome {
	case Done:
		s = append(s, "DONE "+out.Stop.Why)
	case AllDown:
		s = append(s, "ALL DOWN")
	}
	for _, n := range out.Notes {
		s = append(s, n.Reason+"! "+n.Message)
	}
	if out.Resizing.InProgress {
		s = append(s, strings.TrimSpace("RESIZING "+out.Resizing.Problem))
	}
	for _, id := range out.EndHooks {
		s = append(s, "end hook of "+id)
	}
	if !out.Wake.IsZero() {
		s = append(s, "wake +"+out.Wake.Sub(t0).String())
	}
	return strings.Join(s, "; ")
}

func word(a Action) string {
	switch a := a.(type) {
	case ObservePod:
		return "observe"
	case RunSandbox:
		return fmt.Sprintf("run sandbox %d", a.Attempt)
	case StopSandbox:
		return "stop sandbox " + a.ID
	case InspectSandbox:
		return "inspect sandbox " + a.ID
	case EnsureImage:
		if a.Ahead {
			return fmt.Sprintf("image %s#%d ahead", a.Container, a.Attempt)
		}
		return fmt.Sprintf("image %s#%d", a.Container, a.Attempt)
	case MountVolumes:
		return "mount"
	case UnmountVolumes:
		return "unmount"
	case EnsureCgroup:
		if a.Make {
			return "make cgroup"
		}
		return "tell of cgroup"
	case RemoveCgroup:
		return "remove cgroup"
	case PrepareClaims:
		if a.Make {
			return "prepare claims"
		}
		return "ask for claims"
	case ReleaseClaims:
		return "release claims"
	case CreateContainer:
		return fmt.Sprintf("create %s#%d in %s", a.Name, a.Attempt, a.SandboxID)
	case InspectMade:
		return "read " + a.ID
	case StartContainer:
		return "start " + a.ID
	case InspectContainer:
		return "inspect " + a.ID
	case RunPostStart:
		return "postStart " + a.ID
	case RunPreStop:
		return fmt.Sprintf("preStop %s %v", a.ID, a.Grace)
	case StopContainer:
		if a.N > 0 {
			return fmt.Sprintf("stop %s %v (%d)", a.ID, a.Grace, a.N)
		}
		return fmt.Sprintf("stop %s %v", a.ID, a.Grace)
	case NoteRestart:
		return fmt.Sprintf("note %s %s", a.ID, a.Cause)
	case RemoveContainer:
		return "remove " + a.ID
	case LookResources:
		return strings.TrimSpace("look " + strings.Join(a.IDs, " "))
	case ResizePod:
		return fmt.Sprintf("resize pod to %d/%d", a.To.CPUQuota, a.To.Memory)
	case ResizeContainer:
		return fmt.Sprintf("resize %s to %d/%d", a.ID, a.To.CPUQuota, a.To.Memory)
	case PlaceContainer:
		return fmt.Sprintf("place %s on %s", a.ID, a.To.CPUs)
	default:
		panic(a)
	}
}

// planCase is a base, what is different, and what the plan says then.
type planCase struct {
	name string
	base func() Input
	with func(*Input)
	want string
}

func checkPlans(t *testing.T, cases []planCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := c.base()
			if c.with != nil {
				c.with(&in)
			}
			in.View.Sort()
			out := Plan(in)
			if got := said(out); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			if again := Plan(in); !reflect.DeepEqual(again, out) {
				t.Errorf("another plan of the same input: %s", said(again))
			}
		})
	}
}
