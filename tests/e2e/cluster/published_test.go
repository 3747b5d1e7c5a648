package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	imagev1 "github.com/google/go-containerregistry/pkg/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
	"github.com/troupe-dev/troupe/tests/e2e/workloads"
)

// TestCharts installs charts in wide use, upgrades, restarts, breaks and drains them, with troupe and with the kubelet.
// docs/parity/workloads.md lists them.
//
//tier:all the kubelet runs beside
func TestCharts(t *testing.T) {
	t.Parallel()
	onNodes(t, "charts", check.Value(workloads.Charts())(t))
}

// TestStaticPodSets does the same with sets of static pods, in two parts: all of them ask for more CPUs than small
// machines have.
//
//tier:all the kubelet runs beside
func TestStaticPodSets(t *testing.T) {
	t.Parallel()
	for half := range slices.Chunk(check.Value(workloads.StaticPods())(t), 5) {
		t.Run("from-"+half[0].Name, func(t *testing.T) {
			t.Parallel()
			onNodes(t, "static-from-"+half[0].Name, half)
		})
	}
}

// onNodes takes workloads through all that happens to them, on a node of each agent: each step must end as published with
// both. What is found with one of them alone is logged, for it holds chance as well: tails of logs, early probes.
func onNodes(t *testing.T, name string, all []workloads.Workload) {
	var mu sync.Mutex
	found := map[string]map[string]bool{}
	t.Run("both", func(t *testing.T) {
		for agent := range agents() {
			t.Run(agent, func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, name+"-"+agent, agent, all)
				f.install(t, 1)
				f.install(t, 2)
				f.restart(t)
				f.break1(t)
				f.drain(t)
				mu.Lock()
				defer mu.Unlock()
				found[agent] = f.found
			})
		}
	})
	if len(found) < 2 {
		return // told already
	}
	for agent, other := range map[string]string{"kubelet": "troupe", "troupe": "kubelet"} {
		for _, line := range slices.Sorted(maps.Keys(found[agent])) {
			if !found[other][line] {
				t.Logf("only with %s: %s", agent, line)
			}
		}
	}
}

// fleet are the workloads of one node.
type fleet struct {
	*bed
	member  *member.Member
	agent   string
	dir     string // the root of the node's files
	all     []workloads.Workload
	ports   map[string]string // by the published one
	dynamic dynamic.Interface
	release int
	objects map[string][]*unstructured.Unstructured // of each workload, as they were made last
	found   map[string]bool
}

func newFleet(t *testing.T, name, agent string, all []workloads.Workload) *fleet {
	t.Helper()
	f := &fleet{agent: agent, all: all, ports: map[string]string{}, found: map[string]bool{}}
	f.dir = check.Value(os.MkdirTemp("", "node-"))(t)
	t.Cleanup(func() { check.Error(t, errors.Join(lab.Unmount(f.dir), os.RemoveAll(f.dir))) })
	share(t, f.dir)
	ipv4 := []v1.IPFamily{v1.IPv4Protocol} // a kubelet takes no loopback address for one of the node
	f.bed, f.member = joinedOn(t, name, agentOf(t, agent), ipv4, func(b *bed) (string, []string) {
		root := filepath.Join(filepath.Dir(b.lab.Dir()), "n/root")
		check.Fatal(t, os.MkdirAll(filepath.Join(root, "pods"), 0o750))
		share(t, root)
		check.Fatal(t, os.MkdirAll(f.manifests(), 0o755))
		return b.lab.NodeAddresses()[0], []string{"staticPodPath: " + f.manifests()}
	})
	admin := rest.CopyConfig(f.plane.AdminConfig())
	admin.WarningHandler = rest.NoWarnings{} // some fields are published that are deprecated
	f.dynamic = check.Value(dynamic.NewForConfig(admin))(t)
	for _, w := range all {
		for _, path := range w.Host {
			at := filepath.Join(f.dir, path)
			check.Fatal(t, os.MkdirAll(filepath.Dir(at+"x"), 0o755))
			if !strings.HasSuffix(path, "/") {
				check.Fatal(t, os.MkdirAll(filepath.Dir(at), 0o755))
				check.Fatal(t, os.WriteFile(at, []byte("of the node\n"), 0o644))
			}
		}
		if w.Claim != "" {
			disk := filepath.Join(f.dir, "disks", w.Claim)
			check.Fatal(t, os.MkdirAll(disk, 0o755))
			f.claim(t, w.Claim, disk)
		}
	}
	return f
}

// share makes a directory a shared mount, as all of a node with systemd is.
func share(t *testing.T, dir string) {
	t.Helper()
	check.Fatal(t, syscall.Mount(dir, dir, "", syscall.MS_BIND, ""))
	check.Fatal(t, syscall.Mount("", dir, "", syscall.MS_SHARED, ""))
}

func (f *fleet) manifests() string { return filepath.Join(f.dir, "etc/kubernetes/manifests") }

// value is that of a variable of a workload's text.
func (f *fleet) value(t *testing.T) func(string) string {
	return func(name string) string {
		switch name {
		case "DIR":
			return f.dir
		case "ROOT":
			return f.member.Root()
		case "NODE":
			return f.name
		case "REVISION":
			return strconv.Itoa(f.release)
		}
		if f.ports[name] == "" {
			f.ports[name] = strconv.Itoa(check.Value(lab.FreePort())(t))
		}
		return f.ports[name]
	}
}

// installed is the annotation of a pod that installs a static pod.
const installed = "installs"

// install makes all workloads of a release, or has them become it, and waits until all are ready.
func (f *fleet) install(t *testing.T, release int) {
	t.Helper()
	f.release, f.objects = release, map[string][]*unstructured.Unstructured{}
	for _, w := range f.all {
		objects := check.Value(w.Objects(f.value(t)))(t)
		f.objects[w.Name] = objects
		r := workloads.Release{Node: f.name, Number: release, Installs: map[string]string{}}
		byInstaller := map[string]bool{}
		for _, u := range objects {
			if of := u.GetAnnotations()[installed]; of != "" {
				byInstaller[of] = true
				const copies = "/etc/kubernetes/static-pod-resources/%[1]s.yaml /etc/kubernetes/manifests/%[1]s.yaml"
				r.Installs[u.GetName()] = fmt.Sprintf(copies, of)
			}
		}
		var images []string
		for _, u := range objects {
			of, _, err := r.StandIn(u)
			check.Fatal(t, err)
			images = append(images, of...)
		}
		f.pushStandIn(t, w.User, images)
		for _, u := range objects {
			switch {
			case u.GetKind() != "Pod" || u.GetAnnotations()[installed] != "":
				f.apply(t, u)
			case byInstaller[u.GetName()]:
				f.write(t, filepath.Join(f.dir, "etc/kubernetes/static-pod-resources", u.GetName()+".yaml"), u)
			default:
				f.write(t, filepath.Join(f.manifests(), u.GetName()+".yaml"), u)
			}
		}
	}
	pods := f.awaitAll(t, "have release "+strconv.Itoa(release))
	f.look(t, fmt.Sprintf("release %d", release))
	f.facts(t, pods)
}

// pushStandIn serves images in which all programs are the stand-in.
func (f *fleet) pushStandIn(t *testing.T, user string, images []string) {
	t.Helper()
	repository := check.Value(lab.Repository())(t)
	binary := check.Value(lab.BuildProgram(t.Context(), repository, "standin"))(t)
	content := []lab.File{{Path: "standin", Mode: 0o755, Data: binary}}
	for _, p := range check.Value(workloads.Programs())(t) {
		if !strings.HasPrefix(p, "/") {
			p = "/bin/" + p
		}
		content = append(content, lab.File{Path: p[1:], Link: "/standin"})
	}
	image := check.Value(lab.NewPlainImage(imagev1.Config{
		Entrypoint: []string{"/standin"}, Env: []string{"PATH=/bin"}, WorkingDir: "/", User: user,
	}, content...))(t)
	registry := check.Value(shared.Registry())(t)
	slices.Sort(images)
	for _, name := range slices.Compact(images) {
		check.Fatal(t, registry.Push(t.Context(), name, image))
	}
}

func (f *fleet) write(t *testing.T, file string, u *unstructured.Unstructured) {
	t.Helper()
	check.Fatal(t, os.WriteFile(file, check.Value(yaml.Marshal(u.Object))(t), 0o600))
}

// resource is where the apiserver has objects like u.
func (f *fleet) resource(u *unstructured.Unstructured) dynamic.ResourceInterface {
	kind := u.GroupVersionKind()
	at := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: strings.ToLower(kind.Kind) + "s"}
	return f.dynamic.Resource(at).Namespace(f.name)
}

// apply makes an object, or has the one that is there become it.
func (f *fleet) apply(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	as := metav1.ApplyOptions{FieldManager: "helm", Force: true}
	check.Value(f.resource(u).Apply(t.Context(), u.GetName(), u, as))(t)
	strategy, _, _ := unstructured.NestedString(u.Object, "spec", "updateStrategy", "type")
	if strategy == "OnDelete" && f.release > 1 {
		f.remove(t, u.GetName()+"-0")
	}
}

// pods are the node's, of workloads: those of the namespace, and mirrors.
func (f *fleet) pods(ctx context.Context) (out []v1.Pod, err error) {
	for _, namespace := range []string{f.name, metav1.NamespaceSystem} {
		list, err := f.admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + f.name})
		if err != nil {
			return nil, err
		}
		out = append(out, list.Items...)
	}
	return out, nil
}

// awaitAll waits until there is one pod of each that there has to be, of the release, and all are ready or have ended.
func (f *fleet) awaitAll(t *testing.T, what string) (pods []v1.Pod) {
	t.Helper()
	want := map[string]bool{}
	for _, objects := range f.objects {
		for _, u := range objects {
			_, template, _ := unstructured.NestedMap(u.Object, "spec", "template")
			if template || u.GetKind() == "Pod" {
				want[u.GetName()] = true
			}
		}
	}
	f.await(t, "all workloads "+what, func() error {
		pods = check.Must(f.pods(t.Context()))
		missing, wrong := len(want), []string{}
		for i := range pods {
			p := &pods[i]
			if !want[f.base(p)] {
				if p.Status.Phase != v1.PodSucceeded {
					wrong = append(wrong, p.Name+" is too much")
				}
				continue
			}
			missing--
			of := strings.HasSuffix(p.Spec.Containers[0].Image, "-r"+strconv.Itoa(f.release))
			if p.Status.Phase == v1.PodSucceeded && p.Spec.RestartPolicy == v1.RestartPolicyNever {
				continue
			}
			if ready(p) != nil || !of || p.DeletionTimestamp != nil {
				wrong = append(wrong, fmt.Sprintf("%s %s (%s)", p.Name, shown(p), p.Spec.Containers[0].Image))
			}
		}
		return check.That(missing == 0 && len(wrong) == 0, "%d pods are missing: %s", missing, strings.Join(wrong, ", "))
	})
	return pods
}

var (
	ofReplicaSet = regexp.MustCompile(`-[0-9a-z]{6,10}-[0-9a-z]{5}$`)
	ofDaemonSet  = regexp.MustCompile(`-[0-9a-z]{5}$`)
)

// base is the name of the object that a pod comes from.
func (f *fleet) base(p *v1.Pod) string {
	name := strings.TrimSuffix(p.Name, "-"+f.name)
	for _, o := range p.OwnerReferences {
		switch o.Kind {
		case "ReplicaSet":
			return ofReplicaSet.ReplaceAllString(name, "")
		case "DaemonSet":
			return ofDaemonSet.ReplaceAllString(name, "")
		case "StatefulSet":
			return strings.TrimSuffix(name, "-0")
		}
	}
	return name
}
