package containerfiles

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lab has files in a directory of its own.
type lab struct {
	*Files
	t    *testing.T
	root string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	root := t.TempDir()
	pods := check.Value(agentdir.Open(filepath.Join(root, "kubelet/pods"), agentdir.Mode))(t)
	logs := agentdir.At(filepath.Join(root, "logs"), agentdir.Mode)
	t.Cleanup(func() {
		check.Error(t, pods.Root.Close())
		check.Error(t, logs.Close())
	})
	return &lab{Files: New(pods, logs, ""), t: t, root: root}
}

// prepare makes the directories that a pod has before its containers.
func (l *lab) prepare(p *v1.Pod) error {
	for i := range p.Spec.Containers {
		name := p.Spec.Containers[i].Name
		for _, dir := range []string{
			filepath.Join("kubelet/pods", string(p.UID), agentdir.ContainersDir, name),
			filepath.Join("logs", p.Namespace+"_"+p.Name+"_"+string(p.UID), name),
		} {
			if err := os.MkdirAll(filepath.Join(l.root, dir), agentdir.Mode); err != nil {
				return err
			}
		}
	}
	return nil
}

func newPod(change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app"}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}
