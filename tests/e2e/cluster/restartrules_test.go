package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestRestartRules: containers say by their exit code whether they are restarted, in a pod that restarts
// none (KEP-5307), and one whether all of its pod are (KEP-5532). A scheduler gives such a pod only to a
// node that declares that it can.
//
//tier:served
func TestRestartRules(t *testing.T) {
	t.Parallel()
	b := started(t, "restart-rules", onServed)
	policy := v1.ContainerRestartPolicyNever
	rule := func(action v1.ContainerRestartRuleAction) []v1.ContainerRestartRule {
		return []v1.ContainerRestartRule{{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
			Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{1},
		}}}
	}
	data := func(s *v1.PodSpec) {
		s.RestartPolicy = v1.RestartPolicyNever
		s.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		mounts := []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
			for i := range list {
				list[i].VolumeMounts = mounts
			}
		}
	}
	b.create(t, b.pod("own", func(s *v1.PodSpec) {
		work("turns /data/n 2 then exit 0")(s)
		s.Containers[0].RestartPolicy, s.Containers[0].RestartPolicyRules = &policy, rule(v1.ContainerRestartRuleActionRestart)
		data(s)
	}))
	b.create(t, b.pod("none", func(s *v1.PodSpec) {
		work("exit 3")(s)
		s.Containers[0].RestartPolicy, s.Containers[0].RestartPolicyRules = &policy, rule(v1.ContainerRestartRuleActionRestart)
		data(s)
	}))
	b.create(t, b.pod("all", func(s *v1.PodSpec) {
		work("turns /data/n 2 then sleep")(s)
		s.InitContainers = []v1.Container{{Name: "first", Image: lab.WorkImage, Args: strings.Fields("append /data/first turn")}}
		s.Containers[0].RestartPolicy, s.Containers[0].RestartPolicyRules = &policy, rule(v1.ContainerRestartRuleActionRestartAllContainers)
		s.Containers = append(s.Containers, v1.Container{Name: "other", Image: lab.WorkImage, Args: []string{"ignore"}})
		data(s)
	}))
	p := b.awaitPod(t, "own", "succeeds in its second turn", phase(v1.PodSucceeded))
	check.Count(t, p.Status.ContainerStatuses[0].RestartCount, 1, "pod own was restarted %d times")
	p = b.awaitPod(t, "none", "fails with a code that no rule names", phase(v1.PodFailed))
	check.Count(t, p.Status.ContainerStatuses[0].RestartCount, 0, "pod none was restarted %d times")
	b.awaitPod(t, "all", "began anew with all that it has", func(p *v1.Pod) error {
		for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for i := range list {
				if list[i].RestartCount != 1 {
					return fmt.Errorf("%s was restarted %d times", list[i].Name, list[i].RestartCount)
				}
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == v1.AllContainersRestarting && c.Status == v1.ConditionFalse {
				return ready(p)
			}
		}
		return errors.New("the condition AllContainersRestarting is not False")
	})
}
