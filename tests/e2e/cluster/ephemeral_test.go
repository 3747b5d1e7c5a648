package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// debug puts a container into a pod that runs, whatever the agent has written into its status meanwhile.
func (b *bed) debug(t *testing.T, p *v1.Pod, c v1.EphemeralContainer) {
	t.Helper()
	p = p.DeepCopy()
	p.ResourceVersion = ""
	p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, c)
	check.Value(b.admin.CoreV1().Pods(b.name).UpdateEphemeralContainers(t.Context(), p.Name, p, metav1.UpdateOptions{}))(t)
}

// TestEphemeralContainer is what kubectl debug asks for: a container in a pod that runs already. It is
// started once, and the pod goes on as if nothing had been.
//
//tier:real
func TestEphemeralContainer(t *testing.T) {
	t.Parallel()
	b := started(t, "ephemeral")
	b.create(t, b.pod("web", nil))
	p := b.awaitPod(t, "web", "is ready", ready)
	b.debug(t, p, v1.EphemeralContainer{
		EphemeralContainerCommon: v1.EphemeralContainerCommon{
			Name: "debug", Image: lab.WorkImage, Args: strings.Fields("cat /proc/1/cmdline then exit 3"),
			TerminationMessagePolicy: v1.TerminationMessageFallbackToLogsOnError,
		},
		TargetContainerName: "app",
	})
	ended := func(p *v1.Pod) error {
		for _, s := range p.Status.EphemeralContainerStatuses {
			if end := s.State.Terminated; s.Name == "debug" && end != nil {
				if end.ExitCode != 3 || s.RestartCount != 0 || !strings.Contains(end.Message, "/web") { // it sees the processes of its target
					return fmt.Errorf("it ended with %+v", s)
				}
				return nil
			}
		}
		return errors.New("it has not ended")
	}
	p = b.awaitPod(t, "web", "has had a container put into it", ended)
	if s := p.Status.ContainerStatuses[0]; s.RestartCount != 0 || ready(p) != nil {
		t.Errorf("the pod is %s", shown(p))
	}
	if links, err := filepath.Glob(filepath.Join(b.Links(), "web_"+b.name+"_debug-*.log")); err != nil || len(links) != 1 {
		t.Errorf("links to its log are %v: %v", links, err)
	}
	b.kill(t)
	b.start(t)
	b.awaitNode(t, "is ready again", func(n *v1.Node) error {
		return check.That(condition(n, v1.NodeReady).Status == v1.ConditionTrue, "it is not")
	})
	check.Count(t, len(b.world(t).Of("web").Containers), 2, "the runtime has %d containers of the pod")
	if p := b.get(t, "web"); ended(p) != nil || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("after a restart of the agent the pod is %s", shown(p))
	}
	b.remove(t, "web")
	b.awaitGone(t, "web")
}
