package pod

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/smallmap"
	"github.com/troupe-dev/troupe/tests/check"
)

// machine answers at once what it is asked to make for a container, and keeps the order of the
// calls.
type machine struct {
	port.Runtime
	port.ContainerFiles
	calls   []string
	env     []byte // what is in every file of variables
	sub     port.MountSubPaths
	subErr  error
	sandbox port.RunPodSandbox
	created port.CreateContainer
	number  uint32 // that a container gets at least
}

func (m *machine) RunPodSandbox(_ context.Context, r port.RunPodSandbox, done func(string, error)) {
	m.sandbox = r
	done("s1", nil)
}

func (m *machine) ReadEnvFiles(_ context.Context, r port.ReadEnvFiles, done func([]*containerplan.EnvFileValues, error)) {
	for _, f := range r.Files {
		m.calls = append(m.calls, "read "+f.Root+"/"+f.Path)
	}
	done(containerplan.ReadEnvFiles(r.Files, func(containerplan.EnvFile) ([]byte, error) { return m.env, nil }))
}

func (m *machine) MakeFiles(_ context.Context, r port.MakeFiles, done func(port.MadeFiles, error)) {
	m.calls = append(m.calls, "files "+strings.Join(r.IPs, ","))
	done(port.MadeFiles{Mounts: []containerplan.Mount{{Name: "etc-hosts", HostPath: "/hosts"}}, Attempt: max(r.Attempt, m.number)}, nil)
}

func (m *machine) MountSubPaths(_ context.Context, r port.MountSubPaths, done func([]string, error)) {
	m.calls, m.sub = append(m.calls, "subPath "+r.Parts[0].SubPath), r
	done([]string{"/sub"}, m.subErr)
}

func (m *machine) CreateContainer(_ context.Context, r port.CreateContainer, done func(string, error)) {
	m.calls, m.created = append(m.calls, "create"), r
	done("c1", nil)
}

// creatingPod is a pod whose container mounts part of a volume, named by a variable.
func creatingPod(m *machine) *pod {
	want := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.PodSpec{
		NodeName: "node1",
		Volumes: []v1.Volume{
			{Name: "node", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/srv"}}},
			{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		},
		Containers: []v1.Container{{
			Name: "app", Env: []v1.EnvVar{{Name: "SUB", Value: "plain"}, {Name: "IP", ValueFrom: &v1.EnvVarSource{
				FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"},
			}}},
			VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "node", MountPath: "/part", SubPathExpr: "$(SUB)"}},
		}},
	}}
	return &pod{
		deps: &Deps{Runtime: m, Files: m, SubPaths: m.MountSubPaths}, want: want, objects: podobjects.Standalone(),
		paths: smallmap.Map[string, string]{{Key: "node", Value: "/srv"}, {Key: "data", Value: "/pods/data"}},
	}
}

func performed(t *testing.T, r run) ActionDone {
	t.Helper()
	var got []ActionDone
	r.call(t.Context(), func(d ActionDone) { got = append(got, d) })
	if len(got) != 1 {
		t.Fatalf("%d answers", len(got))
	}
	return got[0]
}

func create(t *testing.T, p *pod) ActionDone {
	t.Helper()
	return performed(t, createContainer{podplan.CreateContainer{Name: "app", SandboxID: "s1", PodIPs: []string{"10.0.0.5"}}}.begin(p))
}

// TestOrderOfFamilies: what a pod is told and where it is probed is in the node's order, its hosts file and hooks in that
// of the runtime.
func TestOrderOfFamilies(t *testing.T) {
	both := []string{"10.0.0.5", "fd00::5"}
	for prefer, first := range map[bool]string{false: "10.0.0.5", true: "fd00::5"} {
		m := &machine{}
		p := creatingPod(m)
		p.deps.PreferIPv6 = prefer
		performed(t, createContainer{podplan.CreateContainer{Name: "app", SandboxID: "s1", PodIPs: both}}.begin(p))
		if ip, _ := m.created.Env.Lookup("IP"); ip != first || !slices.Contains(m.calls, "files 10.0.0.5,fd00::5") {
			t.Errorf("IPv6 preferred %v: IP is %s, after %q", prefer, ip, m.calls)
		}
		p.facts.View.Sandboxes = []observed.Sandbox{{State: observed.SandboxReady, IPs: both}}
		if p.podIP() != first || p.address() != "10.0.0.5" {
			t.Errorf("IPv6 preferred %v: probes go to %s, hooks to %s", prefer, p.podIP(), p.address())
		}
	}
	p := creatingPod(&machine{})
	p.want.Spec.HostNetwork, p.machine.HostIPs, p.deps.PreferIPv6 = true, []string{"fd00::1", "192.0.2.1"}, true
	if p.podIP() != "fd00::1" || p.address() != "fd00::1" {
		t.Errorf("on the host's network: probes go to %s, hooks to %s", p.podIP(), p.address())
	}
}

// TestNumberAfterLogs: a container whose logs say that there were others gets the number after theirs, everywhere.
func TestNumberAfterLogs(t *testing.T) {
	m := &machine{number: 4}
	p := creatingPod(m)
	done := create(t, p)
	check.Equal(t, m.created.Attempt, 4, "the number that the runtime is told")
	a := podplan.CreateContainer{Name: "app", SandboxID: "s1"}
	p.facts.Begin(a, time.Time{})
	p.facts.Succeeded(a, podplan.Situation{}, done.Result)
	check.Equal(t, p.facts.View.Containers[0].Attempt, 4, "the number that is shown")
}

// TestCreateContainer: the calls come in their order, and what they return is what the container is
// created with.
func TestCreateContainer(t *testing.T) {
	fromFile := &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "data", Path: "x.env", Key: "SUB"}}
	for _, c := range []struct {
		name   string
		mutate func(*pod)
		calls  []string
		sub    string
	}{
		{"all is in the spec", func(*pod) {}, []string{"files 10.0.0.5", "subPath plain", "create"}, "plain"},
		{"a variable is in a file", func(p *pod) { p.want.Spec.Containers[0].Env[0] = v1.EnvVar{Name: "SUB", ValueFrom: fromFile} },
			[]string{"read /pods/data/x.env", "files 10.0.0.5", "subPath file", "create"}, "file"},
	} {
		m := &machine{env: []byte("SUB='file'\n")}
		p := creatingPod(m)
		c.mutate(p)
		d, r := create(t, p), &m.created
		if d.Err != nil || d.NewID != "c1" || !slices.Equal(m.calls, c.calls) {
			t.Errorf("%s: %+v after %q, want %q", c.name, d, m.calls, c.calls)
		}
		sub, _ := r.Env.Lookup("SUB")
		if ip, _ := r.Env.Lookup("IP"); sub != c.sub || ip != "10.0.0.5" {
			t.Errorf("%s: it has %q and %q", c.name, sub, ip)
		}
		want := []containerplan.Mount{
			{Name: "data", ContainerPath: "/data", HostPath: "/pods/data", Relabel: true},
			{Name: "node", ContainerPath: "/part", HostPath: "/sub"}, {Name: "etc-hosts", HostPath: "/hosts"},
		}
		if !slices.Equal(r.Mounts, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, r.Mounts, want)
		}
		if want := (port.MountSubPaths{Pod: p.want, Container: "app", Parts: []containerplan.SubPath{{Index: 1, Volume: "node", Root: "/srv", SubPath: c.sub}}}); !reflect.DeepEqual(m.sub, want) {
			t.Errorf("%s: subPaths %+v", c.name, m.sub)
		}
	}
}

// TestLargeContainer: what takes megabytes is made when it is the container's turn, among those that are large. What
// waits for a turn holds nothing of it.
func TestLargeContainer(t *testing.T) {
	kilobyte := v1.EnvVar{Name: "A", Value: strings.Repeat("x", 1<<10)}
	for _, c := range []struct {
		name   string
		mutate func(*v1.Container)
		pool   string
		err    string
	}{
		{"small", func(c *v1.Container) { c.Args = []string{strings.Repeat("$(A)", 200)} }, StartPool, ""},
		{"variables", func(c *v1.Container) {
			c.Env = append(c.Env, v1.EnvVar{Name: "B", Value: strings.Repeat("$(A)", 2<<10)})
		}, LargePool, ""},
		{"arguments", func(c *v1.Container) { c.Args = []string{strings.Repeat("$(A)", 2<<10)} }, LargePool, ""},
		{"a file", func(c *v1.Container) {
			c.Env[0] = v1.EnvVar{Name: "SUB", ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "data", Path: "x.env", Key: "SUB"}}}
		}, StartPool, ""},
		{"too large", func(c *v1.Container) { c.Args = []string{strings.Repeat("$(A)", 7<<10)} }, LargePool, "args: " + containerplan.ErrTooLong.Error()},
	} {
		m := &machine{env: []byte("SUB='file'")}
		p := creatingPod(m)
		app := &p.want.Spec.Containers[0]
		app.Env = append(app.Env, kilobyte)
		c.mutate(app)
		r := createContainer{podplan.CreateContainer{Name: "app", SandboxID: "s1", PodIPs: []string{"10.0.0.5"}}}.begin(p)
		check.Equal(t, r.pool, c.pool, "%s: its pool", c.name)
		if d := performed(t, r); c.err != "" {
			check.Says(t, d.Err, c.err, "%s", c.name)
		} else {
			check.Error(t, d.Err)
			check.Equal(t, d.NewID, "c1", "%s: its ID", c.name)
		}
	}
}

// TestContainerThatCannotBe is an invalid configuration that names the container, and the runtime is
// not called.
func TestContainerThatCannotBe(t *testing.T) {
	for want, mutate := range map[string]func(*pod, *machine){
		"configmap default/m is not available": func(p *pod, _ *machine) {
			m := v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "m"}}
			p.want.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &m}}
		},
		"env SUB: couldn't parse env file: there is no x.env": func(p *pod, _ *machine) {
			p.want.Spec.Containers[0].Env[0] = v1.EnvVar{Name: "SUB", ValueFrom: &v1.EnvVarSource{
				FileKeyRef: &v1.FileKeySelector{VolumeName: "data", Path: "x.env", Key: "SUB"},
			}}
		},
		"missing value for SUB":                                   func(p *pod, _ *machine) { p.want.Spec.Containers[0].Env = nil },
		`cannot find volume "node" to mount into container "app"`: func(p *pod, _ *machine) { p.paths.Delete("node") },
		`failed to prepare subPath for volumeMount "node" of container "app": leads out`: func(_ *pod, m *machine) {
			m.subErr = &port.Error{Kind: port.Other, Verb: "MountSubPaths", Detail: "leads out"}
		},
	} {
		m := &machine{}
		p := creatingPod(m)
		mutate(p, m)
		err := create(t, p).Err
		if port.KindOf(err) != port.InvalidConfig || !strings.HasPrefix(err.Error(), "CreateContainer default/web/app: invalid configuration: "+want) {
			t.Errorf("error %v, want %s", err, want)
		}
		if slices.Contains(m.calls, "create") {
			t.Errorf("%s: the runtime was called", want)
		}
	}
	m := &machine{subErr: &port.Error{Kind: port.Deadline, Verb: "MountSubPaths"}}
	if err := create(t, creatingPod(m)).Err; !errors.Is(err, m.subErr) {
		t.Errorf("a host that does not answer: %v", err)
	}
}

// TestGroupsOfVolumes: sandbox and container have the group that a PersistentVolume names.
func TestGroupsOfVolumes(t *testing.T) {
	m := &machine{}
	p := creatingPod(m)
	p.want.Spec.Volumes[1].VolumeSource = v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"},
	}
	p.objects = podobjects.NewSet([]podobjects.Entry{{
		Ref: podobjects.Ref{Kind: podobjects.Claim, Namespace: "default", Name: "disk"}, State: podobjects.Found,
		Object: &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv"}},
	}, {
		Ref: podobjects.Ref{Kind: podobjects.Volume, Name: "pv"}, State: podobjects.Found,
		Object: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
			Name: "pv", Annotations: map[string]string{"pv.beta.kubernetes.io/gid": "1234"},
		}},
	}}).WithoutServices()
	check.Fatal(t, performed(t, runSandbox{RunSandbox: podplan.RunSandbox{}}.begin(p)).Err)
	check.Fatal(t, create(t, p).Err)
	if want := []int64{1234}; !slices.Equal(m.sandbox.Groups, want) || !slices.Equal(m.created.Groups, want) {
		t.Errorf("the sandbox has %v, the container %v", m.sandbox.Groups, m.created.Groups)
	}
}

// TestRuntimeClassOfASandbox: the sandbox gets the handler of its pod's class, or is not made.
func TestRuntimeClassOfASandbox(t *testing.T) {
	class := func(state podobjects.State) podobjects.Set {
		return podobjects.NewSet([]podobjects.Entry{{
			Ref: podobjects.Ref{Kind: podobjects.RuntimeClass, Name: "kata"}, State: state, Object: &nodev1.RuntimeClass{Handler: "kata-qemu"},
		}})
	}
	for _, c := range []struct {
		objects podobjects.Set
		want    string
	}{
		{class(podobjects.Found), ""},
		{class(podobjects.Missing), `RunPodSandbox default/web: invalid configuration: runtimeclass.node.k8s.io "kata" not found`},
		{podobjects.Standalone(), "RunPodSandbox default/web: invalid configuration: runtimeclass.node.k8s.io kata is not available: this node has no apiserver"},
	} {
		m := &machine{}
		p := creatingPod(m)
		p.want.Spec.RuntimeClassName, p.objects = new("kata"), c.objects
		err := performed(t, runSandbox{RunSandbox: podplan.RunSandbox{Attempt: 4}}.begin(p)).Err
		switch {
		case c.want != "":
			if port.KindOf(err) != port.InvalidConfig || !strings.HasPrefix(err.Error(), c.want) || m.sandbox.Pod != nil {
				t.Errorf("error %v, want %s", err, c.want)
			}
		case err != nil || m.sandbox.RuntimeHandler != "kata-qemu" || m.sandbox.Attempt != 4:
			t.Errorf("%+v, %v", m.sandbox, err)
		}
	}
}
