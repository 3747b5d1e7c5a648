package cluster

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
)

// label puts a label on the node, or takes it away.
func (r *reported) label(t *testing.T, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"of-the-node":%s}}}`, value)
	check.Value(r.admin.CoreV1().Nodes().Patch(t.Context(), r.name, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
}

// losesTheLabel, isAdopted: what runs is not judged again by an agent that starts, whatever the node has become.
func (r *reported) losesTheLabel(t *testing.T) {
	r.label(t, `"here"`)
	r.awaitNode(t, "has the label", func(n *v1.Node) error {
		return check.That(n.Labels["of-the-node"] == "here", "it has not")
	})
	r.add(t, work("sleep"), func(s *v1.PodSpec) { s.NodeSelector = map[string]string{"of-the-node": "here"} })
	r.saw = r.awaitPod(t, r.pod, "is ready", ready)
	r.label(t, "null")
}

func (r *reported) isAdopted(t *testing.T) {
	p := r.get(t, r.pod)
	check.Error(t, ready(p))
	check.Equal(t, p.Status.ContainerStatuses[0].ContainerID, r.saw.Status.ContainerStatuses[0].ContainerID, "its container")
}

// configMap makes one, immutable or not.
func (r *reported) configMap(t *testing.T, immutable bool, data map[string]string) *v1.ConfigMap {
	t.Helper()
	c := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: r.pod}, Immutable: &immutable, Data: data}
	return check.Value(r.admin.CoreV1().ConfigMaps(r.name).Create(t.Context(), c, metav1.CreateOptions{}))(t)
}

// ofMap is a variable that is a key of the pod's ConfigMap.
func (r *reported) ofMap(key string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		s.Containers[0].Env = []v1.EnvVar{{Name: "V", ValueFrom: &v1.EnvVarSource{
			ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: ofName(r.pod), Key: key},
		}}}
	}
}

// hasAnotherMap: an immutable ConfigMap is deleted and made again while a pod uses it. A new pod has the one that exists.
func (r *reported) hasAnotherMap(t *testing.T) {
	r.configMap(t, true, map[string]string{"first": "x"})
	r.add(t, work("sleep"), r.ofMap("first"))
	r.awaitPod(t, r.pod, "is ready", ready)
	check.Fatal(t, r.admin.CoreV1().ConfigMaps(r.name).Delete(t.Context(), r.pod, metav1.DeleteOptions{}))
	r.configMap(t, true, map[string]string{"second": "y"})
	r.create(t, r.bed.pod(r.pod+"-new", func(s *v1.PodSpec) {
		work("sleep")(s)
		r.ofMap("second")(s)
	}))
	r.awaitPod(t, r.pod+"-new", "is ready", ready)
}

// changesWhileTheyStart: a ConfigMap of which pods have a file by subPath changes all the time while they start.
func (r *reported) changesWhileTheyStart(t *testing.T) {
	const pods = 30
	c := r.configMap(t, false, map[string]string{"file": "0"})
	name := func(i int) string { return fmt.Sprint(r.pod, "-", i) }
	for i := range pods {
		r.create(t, r.bed.pod(name(i), func(s *v1.PodSpec) {
			never(s)
			work("cat /file")(s)
			s.Volumes = []v1.Volume{volume("c", v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ofName(r.pod)},
			})}
			s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("c", func(m *v1.VolumeMount) {
				m.MountPath, m.SubPath = "/file", "file"
			})}
		}))
	}
	changes := 0
	for i := range pods {
		r.awaitPod(t, name(i), "has ended", func(p *v1.Pod) error {
			changes++
			c.Data["file"] = fmt.Sprint(changes)
			c = check.Must(r.admin.CoreV1().ConfigMaps(r.name).Update(t.Context(), c, metav1.UpdateOptions{}))
			return check.That(p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed, "it is %s", p.Status.Phase)
		})
		check.Equal(t, r.get(t, name(i)).Status.Phase, v1.PodSucceeded, "how %s has ended", name(i))
	}
}
