package cluster

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
)

// story is a pod, and what kubectl get pods -w prints of it.
type story struct {
	change func(*v1.PodSpec)
	// lines come in this order, READY STATUS RESTARTS each. One with a ? may be missing: it is a matter of
	// who is faster.
	lines []string
	// deleted: the pod is deleted when the last line but those of its end was seen.
	end []string
}

var stories = map[string]story{
	"runs": {
		// Ready is when it serves: asked to end before that it would not end well.
		change: func(s *v1.PodSpec) {
			s.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(8080)}}}
		},
		lines: []string{"0/1 Pending 0", "0/1 ContainerCreating 0", "0/1 Running 0 ?", "1/1 Running 0"},
		end:   []string{"1/1 Terminating 0", "0/1 Terminating 0 ?", "0/1 Completed 0 ?"},
	},
	"completes": {
		change: func(s *v1.PodSpec) {
			work("sleep 2s then exit 0")(s)
			s.RestartPolicy = v1.RestartPolicyNever
		},
		lines: []string{"0/1 Pending 0", "0/1 ContainerCreating 0", "1/1 Running 0", "0/1 Completed 0"},
	},
	"fails": {
		change: func(s *v1.PodSpec) {
			work("sleep 2s then exit 3")(s)
			s.RestartPolicy = v1.RestartPolicyNever
		},
		lines: []string{"0/1 Pending 0", "0/1 ContainerCreating 0", "1/1 Running 0", "0/1 Error 0"},
	},
	"crashes": {
		change: work("sleep 2s then exit 3"),
		lines: []string{"0/1 Pending 0", "0/1 ContainerCreating 0", "1/1 Running 0", "0/1 Error 0 ?", "1/1 Running 1",
			"0/1 Error 1 ?", "0/1 CrashLoopBackOff 1"},
	},
	"no-image": {
		change: func(s *v1.PodSpec) { s.Containers[0].Image = "troupe.local/demo/none:v1" },
		lines:  []string{"0/1 Pending 0", "0/1 ContainerCreating 0", "0/1 ErrImagePull 0", "0/1 ImagePullBackOff 0", "0/1 ErrImagePull 0"},
	},
	"init": {
		change: func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{
				{Name: "one", Image: lab.WorkImage, Args: strings.Fields("sleep 2s")}, {Name: "two", Image: lab.WorkImage, Args: strings.Fields("sleep 2s")},
			}
		},
		lines: []string{"0/1 Pending 0", "0/1 Init:0/2 0", "0/1 Init:1/2 0", "0/1 PodInitializing 0", "1/1 Running 0"},
	},
	"init-fails": {
		change: func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{{Name: "one", Image: lab.WorkImage, Args: strings.Fields("sleep 2s then exit 1")}}
		},
		lines: []string{"0/1 Pending 0", "0/1 Init:0/1 0", "0/1 Init:Error 0 ?", "0/1 Init:0/1 1 ?", "0/1 Init:Error 1 ?", "0/1 Init:CrashLoopBackOff 1"},
	},
	"no-config": {
		change: func(s *v1.PodSpec) {
			s.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}}}}
		},
		lines: []string{"0/1 Pending 0", "0/1 ContainerCreating 0", "0/1 CreateContainerConfigError 0"},
	},
}

// TestShownAsByKubelet tells each story to troupe: people who watch see what they see of the kubelet.
//
//tier:all repeats scenarios, and is compared with the kubelet
func TestShownAsByKubelet(t *testing.T) {
	t.Parallel()
	asKubelet(t, "shown", func(t *testing.T, b *bed, _ bool) { testShown(t, b) })
}

func testShown(t *testing.T, b *bed) {
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := b.follow(t, name)
			b.create(t, b.pod(name, s.change))
			got, last := []string{}, s.lines[len(s.lines)-1]
			at := 0 // in s.lines
			h.until(t, last, func(_ watch.EventType, p *v1.Pod) bool {
				got = told(got, p)
				for at < len(s.lines)-1 && len(got) > 0 && !is1(got[len(got)-1], s.lines[at]) && slices.ContainsFunc(s.lines[at:], func(l string) bool { return is1(got[len(got)-1], l) }) {
					at++
				}
				return at == len(s.lines)-1 && is1(got[len(got)-1], last)
			})
			if s.end != nil {
				b.remove(t, name)
				h.until(t, "its end", func(kind watch.EventType, p *v1.Pod) bool {
					got = told(got, p)
					return kind == watch.Deleted
				})
			}
			if err := follows(got, slices.Concat(s.lines, s.end)); err != "" {
				t.Errorf("%s; seen:\n\t%s", err, strings.Join(got, "\n\t"))
			} else {
				t.Log(strings.Join(got, " → "))
			}
		})
	}
}

// told adds a line, unless it is the last one again.
func told(lines []string, p *v1.Pod) []string {
	if s := shown(p); len(lines) == 0 || lines[len(lines)-1] != s {
		lines = append(lines, s)
	}
	return lines
}

func is1(line, of string) bool { return line == strings.TrimSuffix(of, " ?") }

// follows is empty if lines are those of the story, and else what is wrong.
func follows(lines, story []string) string {
	i := 0
	for _, line := range lines {
		for i < len(story) && !is1(line, story[i]) && strings.HasSuffix(story[i], "?") {
			i++
		}
		if i == len(story) || !is1(line, story[i]) {
			return line + " is not what comes next"
		}
		i++
	}
	for ; i < len(story); i++ {
		if !strings.HasSuffix(story[i], "?") {
			return story[i] + " is missing"
		}
	}
	return ""
}

// joined is a bed whose agent is a member, of whatever kind.
func joined(t *testing.T, name string, agent member.Agent, settings ...string) *bed {
	t.Helper()
	b, _ := joinedAs(t, name, agent, settings...)
	return b
}

// joinedAs is joined, with the agent's process.
func joinedAs(t *testing.T, name string, agent member.Agent, settings ...string) (*bed, *member.Member) {
	t.Helper()
	return joinedOn(t, name, agent, nil, func(*bed) (string, []string) { return "127.0.0.1", settings })
}

// joinedOn is joinedAs with pods of these families. as gives --node-ip, and more lines of KubeletConfiguration.
func joinedOn(
	t *testing.T, name string, agent member.Agent, families []v1.IPFamily, as func(*bed) (nodeIP string, settings []string),
) (*bed, *member.Member) {
	t.Helper()
	lab.Need(t, append(lab.Containerd2.Needs(), lab.GoToolchain)...)
	b, dir := newBase(t, name, &setup{release: lab.Containerd2, families: families})
	nodeIP, settings := as(b)
	m := check.Value(member.New(member.Config{
		Agent: agent, Node: name, Dir: dir, Endpoint: b.lab.Endpoint(), CgroupRoot: b.lab.CgroupRoot(), Plane: b.plane,
		Flags:    []string{"--node-ip", nodeIP, "--node-labels", "test=" + name},
		Settings: strings.Join(settings, "\n"),
	}))(t)
	b.member, b.Daemon = m, m.Daemon
	check.Fatal(t, m.Start())
	b.awaitNode(t, "is ready for pods", usable)
	return b, m
}
