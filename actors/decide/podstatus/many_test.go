package podstatus_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/smallmap"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestMany: with four times as much of anything a status takes four times as long, and not sixteen times.
func TestMany(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	container := func(in *podplan.Input, i int) (v1.Container, observed.Container) {
		name := fmt.Sprint("c", i) // not in the order of the names
		return v1.Container{Name: name}, observed.Container{
			ID: fmt.Sprintf("%064d", i), SandboxID: "s", Name: name, State: observed.ContainerRunning, CreatedAt: in.Now,
		}
	}
	for name, add := range map[string]func(in *podplan.Input, i int){
		"containers": func(in *podplan.Input, i int) {
			c, ran := container(in, i)
			in.Pod.Spec.Containers, in.View.Containers = append(in.Pod.Spec.Containers, c), append(in.View.Containers, ran)
		},
		"containers that wait": func(in *podplan.Input, i int) {
			c, _ := container(in, i)
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, c)
		},
		"sidecars": func(in *podplan.Input, i int) {
			c, ran := container(in, i)
			c.RestartPolicy = &always
			in.Pod.Spec.InitContainers, in.View.Containers = append(in.Pod.Spec.InitContainers, c), append(in.View.Containers, ran)
		},
		"init containers that wait": func(in *podplan.Input, i int) {
			c, _ := container(in, i)
			in.Pod.Spec.InitContainers = append(in.Pod.Spec.InitContainers, c)
		},
		"ephemeral containers": func(in *podplan.Input, i int) {
			c, ran := container(in, i)
			in.Pod.Spec.EphemeralContainers = append(in.Pod.Spec.EphemeralContainers,
				v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: c.Name}})
			in.View.Containers = append(in.View.Containers, ran)
		},
		"readiness gates": func(in *podplan.Input, i int) {
			kind := v1.PodConditionType(fmt.Sprint("example.com/", i))
			in.Pod.Spec.ReadinessGates = append(in.Pod.Spec.ReadinessGates, v1.PodReadinessGate{ConditionType: kind})
			in.Pod.Status.Conditions = append(in.Pod.Status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue})
		},
		"mounts that are read-only to their depths": func(in *podplan.Input, i int) {
			if i == 0 {
				c, ran := container(in, 0)
				ran.Detailed = true
				in.Pod.Spec.Containers, in.View.Containers = []v1.Container{c}, []observed.Container{ran}
			}
			m := v1.VolumeMount{Name: "v", MountPath: fmt.Sprint("/m/", i), ReadOnly: true}
			m.RecursiveReadOnly = ptr.To(v1.RecursiveReadOnlyIfPossible)
			c, ran := &in.Pod.Spec.Containers[0], &in.View.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, m)
			ran.RecursiveReadOnly = append(ran.RecursiveReadOnly, m.MountPath)
		},
	} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, 500, func(n int) func() {
				in := podplan.Input{Now: time.Unix(1e9, 0), Pod: &v1.Pod{}, Facts: podplan.Facts{Known: true}}
				for i := range n {
					add(&in, i)
				}
				in.View.Sort()
				out := podplan.Output{}
				for _, c := range in.Pod.Spec.Containers {
					if len(in.View.Containers) == 0 {
						out.Waiting = append(out.Waiting, smallmap.Entry[string, podplan.Waiting]{Key: c.Name})
					}
				}
				first := podstatus.Compute(podstatus.Input{Plan: in, Out: out})
				return func() { podstatus.Compute(podstatus.Input{Plan: in, Out: out, Previous: &first}) }
			})
		})
	}
}
