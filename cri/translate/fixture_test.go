package translate

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// world is the base that each case of a table changes.
type world struct {
	node  *Node
	pod   *v1.Pod
	app   *v1.Container // the first container of pod
	image *observed.Image
	r     *port.CreateContainer
}

func newWorld() *world {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "u1",
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "n"},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "r.io/app:1"}}},
	}
	w := &world{
		node: &Node{
			RootDir: "/var/lib/troupe", MemoryCapacity: 1000,
			ResolvConf: "nameserver 10.1.1.1\nsearch corp.example\noptions ndots:2 rotate\n",
			ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local",
		},
		pod: pod,
		app: &pod.Spec.Containers[0],
		r: &port.CreateContainer{
			Pod: pod, Container: &pod.Spec.Containers[0], SandboxID: "s1", ImageRef: "sha256:ab",
			Image: observed.Image{ID: "sha256:ab"}, SpecHash: "h1",
		},
	}
	w.image = &w.r.Image
	return w
}

// env gives the container variables: names and values in turn.
func (w *world) env(pairs ...string) {
	c := &v1.Container{}
	for i := 0; i < len(pairs); i += 2 {
		c.Env = append(c.Env, v1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
	}
	env, err := containerplan.EnvironmentOf(&podspec.Downward{Pod: w.pod}, podobjects.Standalone(), nil, c,
		&containerplan.Expansion{Left: containerplan.MaxExpanded})
	if err != nil {
		panic(err)
	}
	w.r.Env = env
}

// capable makes the node's own handler one that can do all.
func (w *world) capable() {
	w.node.Handlers = []v1.NodeRuntimeHandler{{Features: &v1.NodeRuntimeHandlerFeatures{UserNamespaces: ptr(true), RecursiveReadOnlyMounts: ptr(true)}}, {Name: "kata"}}
	w.node.UserNamespace = func(*v1.Pod) (isolation.IDMapping, error) {
		return isolation.IDMapping{First: 131072, Length: 65536}, nil
	}
}

func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func ptr[T any](v T) *T { return &v }

func (w *world) sandbox(t *testing.T) *runtimeapi.PodSandboxConfig {
	t.Helper()
	got := check.Value(Sandbox(w.node, &port.RunPodSandbox{Pod: w.pod}))(t)
	return got.Config
}

func (w *world) container(t *testing.T) *runtimeapi.ContainerConfig {
	t.Helper()
	got := check.Value(Container(w.node, w.r))(t)
	return got.Config
}

// wantInvalid holds that err is of kind InvalidConfig and says text.
func wantInvalid(t *testing.T, err error, text string) {
	t.Helper()
	if port.KindOf(err) != port.InvalidConfig || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want an invalid configuration with %q", err, text)
	}
}
