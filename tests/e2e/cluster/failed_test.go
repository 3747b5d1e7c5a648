package cluster

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// collect keeps what says why a test has failed, if it has: logs, the objects of its node and namespace, and what the agent
// says of its pods.
func (b *bed) collect(t *testing.T) {
	t.Helper()
	lab.Collect(t, b.reach(), func(ctx context.Context, e lab.Evidence) {
		if b.lab != nil {
			e.File("containerd.log", b.lab.LogPath())
		}
		e.ControlPlane(b.plane)
		b.objects(ctx, e)
		switch {
		case b.Agent != nil:
			b.Collect(ctx, e)
		case b.Daemon != nil:
			b.Keep(e)
		}
	})
}

// reach says how to get at what runs.
func (b *bed) reach() string {
	text := fmt.Sprintf("node and namespace %s", b.name)
	if b.lab != nil {
		text += fmt.Sprintf("\ncontainerd: crictl --runtime-endpoint %s ps", b.lab.Endpoint())
	}
	if b.Daemon != nil {
		text += fmt.Sprintf("\nagent: troupe tree --root-dir %s", b.Root())
	}
	if kubeconfig, err := b.plane.Kubeconfig("system:looker", "system:masters"); err == nil {
		text += fmt.Sprintf("\napiserver: kubectl --kubeconfig %s -n %s get pods", kubeconfig, b.name)
	}
	return text
}

// objects keeps the API objects of the test.
func (b *bed) objects(ctx context.Context, e lab.Evidence) {
	core, all := b.admin.CoreV1(), metav1.ListOptions{}
	keep := func(name string, object any, err error) {
		text, yamlErr := yaml.Marshal(object)
		if err == nil {
			err = yamlErr
		}
		e.Text(name, string(text), err)
	}
	node, err := core.Nodes().Get(ctx, b.name, metav1.GetOptions{})
	keep("node.yaml", node, err)
	pods, err := core.Pods(b.name).List(ctx, all)
	keep("pods.yaml", pods, err)
	events, err := core.Events(b.name).List(ctx, all)
	keep("events.yaml", events, err)
}
