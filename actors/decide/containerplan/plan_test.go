package containerplan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
	"github.com/troupe-dev/troupe/tests/check"
)

// world is the base that each case of a table changes: a container with a mount of each of its
// pod's volumes.
type world struct {
	*Input
	spec *v1.PodSpec
	app  *v1.Container
}

func newWorld() *world {
	volume := func(name string, s v1.VolumeSource) v1.Volume { return v1.Volume{Name: name, VolumeSource: s} }
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "app", VolumeMounts: []v1.VolumeMount{
			{Name: "data", MountPath: "/data"}, {Name: "node", MountPath: "/node"}, {Name: "model", MountPath: "/model"},
		}}},
		Volumes: []v1.Volume{
			volume("data", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
			volume("node", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/srv"}}),
			volume("model", v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "r.io/model:1"}}),
		},
	}}
	app := &pod.Spec.Containers[0]
	return &world{spec: &pod.Spec, app: app, Input: &Input{
		Downward: podspec.Downward{Pod: pod}, Container: app, Objects: podobjects.Standalone(), View: &observed.Pod{},
		Paths:  smallmap.Map[string, string]{{Key: "data", Value: "/pods/data"}, {Key: "node", Value: "/srv"}, {Key: "model"}},
		Images: smallmap.Map[string, imagepull.Status]{{Key: imagepull.VolumeImage("model"), Value: imagepull.Status{Ref: "sha256:1"}}},
	}}
}

func (w *world) mount(i int, change func(*v1.VolumeMount)) { change(&w.app.VolumeMounts[i]) }

func (w *world) variable(name, value string) {
	w.app.Env = append(w.app.Env, v1.EnvVar{Name: name, Value: value})
}

func (w *world) plan(files EnvFiles) (*Plan, *Resolved, error) {
	p, err := New(w.Input)
	if err != nil {
		return nil, nil, err
	}
	r, err := p.Resolve(files, MaxExpanded)
	return p, r, err
}

func fromFile(volume string) v1.EnvVar {
	return v1.EnvVar{Name: "SUB", ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: volume, Path: "x.env", Key: "SUB"}}}
}

func TestMounts(t *testing.T) {
	data := Mount{Name: "data", ContainerPath: "/data", HostPath: "/pods/data", Relabel: true}
	node := Mount{Name: "node", ContainerPath: "/node", HostPath: "/srv"}
	model := Mount{Name: "model", ContainerPath: "/model", ReadOnly: true, Image: "sha256:1", UserImage: "r.io/model:1"}
	with := func(m Mount, change func(*Mount)) Mount { change(&m); return m }
	for _, c := range []struct {
		name   string
		mutate func(*world)
		want   []Mount
		parts  []SubPath
	}{
		{"in order", func(*world) {}, []Mount{data, node, model}, nil},
		{"one volume twice", func(w *world) {
			w.app.VolumeMounts = []v1.VolumeMount{{Name: "node", MountPath: "/a"}, {Name: "node", MountPath: "/b"}}
		}, []Mount{with(node, func(m *Mount) { m.ContainerPath = "/a" }), with(node, func(m *Mount) { m.ContainerPath = "/b" })}, nil},
		{"none", func(w *world) { w.app.VolumeMounts = nil }, nil, nil},
		{"read-only", func(w *world) { w.mount(1, func(m *v1.VolumeMount) { m.ReadOnly = true }) },
			[]Mount{data, with(node, func(m *Mount) { m.ReadOnly = true }), model}, nil},
		{"files made for the pod are read-only", func(w *world) {
			w.spec.Volumes[0].VolumeSource = v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}
		}, []Mount{with(data, func(m *Mount) { m.ReadOnly = true }), node, model}, nil},
		{"a server that is read-only", func(w *world) {
			w.spec.Volumes[1].VolumeSource = v1.VolumeSource{NFS: &v1.NFSVolumeSource{ReadOnly: true}}
		}, []Mount{data, with(node, func(m *Mount) { m.ReadOnly = true }), model}, nil},
		{"a claim that is read-only", func(w *world) {
			w.spec.Volumes[1].VolumeSource = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ReadOnly: true}}
		}, []Mount{data, with(node, func(m *Mount) { m.ReadOnly = true }), model}, nil},
		{"a CSI volume that is read-only", func(w *world) {
			w.spec.Volumes[1].VolumeSource = v1.VolumeSource{CSI: &v1.CSIVolumeSource{ReadOnly: new(true)}}
		}, []Mount{data, with(node, func(m *Mount) { m.ReadOnly = true }), model}, nil},
		{"iSCSI that is read-only", func(w *world) {
			w.spec.Volumes[1].VolumeSource = v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{ReadOnly: true}}
		}, []Mount{data, with(node, func(m *Mount) { m.ReadOnly = true }), model}, nil},
		{"Fibre Channel that is read-only", func(w *world) {
			w.spec.Volumes[1].VolumeSource = v1.VolumeSource{FC: &v1.FCVolumeSource{ReadOnly: true}}
		}, []Mount{data, with(node, func(m *Mount) { m.ReadOnly = true }), model}, nil},
		{"a path without a slash", func(w *world) { w.mount(1, func(m *v1.VolumeMount) { m.MountPath = "certs.d/host:5000/" }) },
			[]Mount{data, with(node, func(m *Mount) { m.ContainerPath = "/certs.d/host:5000" }), model}, nil},
		{"a path with a slash stays as it is", func(w *world) { w.mount(1, func(m *v1.VolumeMount) { m.MountPath = "/certs.d/host:5000/" }) },
			[]Mount{data, with(node, func(m *Mount) { m.ContainerPath = "/certs.d/host:5000/" }), model}, nil},
		{"propagation", func(w *world) {
			w.mount(1, func(m *v1.VolumeMount) { m.MountPropagation = new(v1.MountPropagationBidirectional) })
		}, []Mount{data, with(node, func(m *Mount) { m.Propagation = v1.MountPropagationBidirectional }), model}, nil},
		{"recursively read-only", func(w *world) {
			w.mount(1, func(m *v1.VolumeMount) { m.ReadOnly, m.RecursiveReadOnly = true, new(v1.RecursiveReadOnlyEnabled) })
		}, []Mount{data, with(node, func(m *Mount) { m.ReadOnly, m.RecursiveReadOnly = true, v1.RecursiveReadOnlyEnabled }), model}, nil},
		{"subPath", func(w *world) { w.mount(1, func(m *v1.VolumeMount) { m.SubPath = "a/b" }) },
			[]Mount{data, node, model}, []SubPath{{Index: 1, Volume: "node", Root: "/srv", SubPath: "a/b"}}},
		{"subPath of an image", func(w *world) { w.mount(2, func(m *v1.VolumeMount) { m.SubPath = "a" }) },
			[]Mount{data, node, with(model, func(m *Mount) { m.ImageSubPath = "a" })}, nil},
		{"subPathExpr", func(w *world) {
			w.variable("A", "x")
			w.variable("B", "$(A)y")
			w.mount(0, func(m *v1.VolumeMount) { m.SubPathExpr = "$(B)/$$(B)" })
		}, []Mount{data, node, model}, []SubPath{{Index: 0, Volume: "data", Root: "/pods/data", SubPath: "xy/$(B)"}}},
		{"subPathExpr that is long before it is cleaned", func(w *world) {
			w.variable("A", strings.Repeat("/./", 5000))
			w.mount(0, func(m *v1.VolumeMount) { m.SubPathExpr = "x$(A)y" })
		}, []Mount{data, node, model}, []SubPath{{Index: 0, Volume: "data", Root: "/pods/data", SubPath: "x/y"}}},
		{"subPathExpr with a variable of a device plugin", func(w *world) {
			w.Plugged = []devices.Variable{{Name: "A", Value: "plugged"}, {Name: "B", Value: "z"}}
			w.variable("A", "own")
			w.mount(0, func(m *v1.VolumeMount) { m.SubPathExpr = "$(A)/$(B)" })
		}, []Mount{data, node, model}, []SubPath{{Index: 0, Volume: "data", Root: "/pods/data", SubPath: "own/z"}}},
		{"dots in names", func(w *world) { w.mount(0, func(m *v1.VolumeMount) { m.SubPath = "..a/b.." }) },
			[]Mount{data, node, model}, []SubPath{{Index: 0, Volume: "data", Root: "/pods/data", SubPath: "..a/b.."}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.mutate(w)
			_, got := check.Values(w.plan(nil))(t)
			if !slices.Equal(got.Mounts, c.want) || !slices.Equal(got.SubPaths, c.parts) {
				t.Errorf("\n got %+v, %+v\nwant %+v, %+v", got.Mounts, got.SubPaths, c.want, c.parts)
			}
		})
	}
}

func TestContainerThatCannotBe(t *testing.T) {
	debug := v1.EphemeralContainer{TargetContainerName: "app"}
	debug.Name = "debug"
	for want, mutate := range map[string]func(*world){
		`subPathExpr "$(A)" has more than 4095 bytes with all variables expanded, and no path may be longer`: func(w *world) {
			w.variable("A", strings.Repeat("x", 5000))
			w.mount(0, func(m *v1.VolumeMount) { m.SubPathExpr = "$(A)" })
		},
		`cannot find volume "data" to mount into container "app"`: func(w *world) { w.Paths = nil },
		`cannot find volume "node" to mount into container "app"`: func(w *world) { w.spec.Volumes = w.spec.Volumes[:1] },
		"error SubPath `/a` must not be an absolute path":         func(w *world) { w.mount(0, func(m *v1.VolumeMount) { m.SubPath = "/a" }) },
		"error DevicePath `dev/x` must be an absolute path": func(w *world) {
			w.app.VolumeDevices = []v1.VolumeDevice{{Name: "data", DevicePath: "dev/x"}}
		},
		`cannot find volume "disk" to pass into container "app"`: func(w *world) {
			w.app.VolumeDevices = []v1.VolumeDevice{{Name: "disk", DevicePath: "/dev/x"}}
		},
		"unable to provision SubPath `a/..`: must not contain '..'": func(w *world) {
			w.variable("UP", "..")
			w.mount(2, func(m *v1.VolumeMount) { m.SubPathExpr = "a/$(UP)" })
		},
		"missing value for B, C": func(w *world) {
			w.variable("A", "x")
			w.mount(0, func(m *v1.VolumeMount) { m.SubPathExpr = "$(A)/$(C)/$(B)/$(C)" })
		},
		"missing value for A": func(w *world) { // it would be the volume's root
			w.variable("A", "")
			w.mount(0, func(m *v1.VolumeMount) { m.SubPathExpr = "$(A)" })
		},
		"unable to find target container app": func(w *world) {
			w.spec.EphemeralContainers = []v1.EphemeralContainer{debug}
			w.Container = (*v1.Container)(&w.spec.EphemeralContainers[0].EphemeralContainerCommon)
		},
		`cannot find the volume "node" referenced by FileKeyRef`:               func(w *world) { w.app.Env = []v1.EnvVar{fromFile("node")} },
		`env SUB: couldn't parse env file: there is no x.env in volume "data"`: func(w *world) { w.app.Env = []v1.EnvVar{fromFile("data")} },
		`env V: unsupported fieldPath: status.phase`: func(w *world) {
			w.app.Env = []v1.EnvVar{{Name: "V", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.phase"}}}}
		},
	} {
		w := newWorld()
		mutate(w)
		if _, _, err := w.plan(nil); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestFilesComeFirst: a subPathExpr sees a variable from a file.
func TestFilesComeFirst(t *testing.T) {
	w := newWorld()
	w.app.Env = []v1.EnvVar{fromFile("data")}
	w.mount(1, func(m *v1.VolumeMount) { m.SubPathExpr = "$(SUB)" })
	p := check.Value(New(w.Input))(t)
	if want := []EnvFile{{Volume: "data", Root: "/pods/data", Path: "x.env", Keys: []string{"SUB"}}}; !reflect.DeepEqual(p.EnvFiles, want) {
		t.Fatalf("it reads %v, want %v", p.EnvFiles, want)
	}
	read := []*EnvFileValues{ParseEnvFile([]byte("SUB='here'\n"), "SUB")}
	r, err := p.Resolve(EnvFilesRead(p.EnvFiles, read), MaxExpanded)
	if want := []SubPath{{Index: 1, Volume: "node", Root: "/srv", SubPath: "here"}}; err != nil || !slices.Equal(r.SubPaths, want) {
		t.Errorf("%+v, %v, want %v", r, err, want)
	}
	if got, _ := r.Env.Lookup("SUB"); got != "here" {
		t.Errorf("its variable is %q", got)
	}
}

// TestPluggedVariables: those of device plugins come first, and the container's own values do not see them.
func TestPluggedVariables(t *testing.T) {
	w := newWorld()
	w.Plugged = []devices.Variable{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
	w.variable("C", "$(A)")
	w.variable("A", "own")
	_, r := check.Values(w.plan(nil))(t)
	var got []string
	for _, name := range r.Env.Names() {
		v, _ := r.Env.Lookup(name)
		got = append(got, name+"="+v)
	}
	if want := []string{"A=own", "B=2", "C=$(A)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOwnVolumes: what is the node's, or another machine's, is not relabelled.
func TestOwnVolumes(t *testing.T) {
	bound := func(name string, source v1.PersistentVolumeSource) []podobjects.Entry {
		return []podobjects.Entry{
			{
				Ref: podobjects.Ref{Kind: podobjects.Claim, Namespace: "default", Name: name}, State: podobjects.Found,
				Object: &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{VolumeName: name}},
			},
			{
				Ref: podobjects.Ref{Kind: podobjects.Volume, Name: name}, State: podobjects.Found,
				Object: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: source}},
			},
		}
	}
	var entries []podobjects.Entry
	for name, source := range map[string]v1.PersistentVolumeSource{
		"disk": {Local: &v1.LocalVolumeSource{}}, "server": {NFS: &v1.NFSVolumeSource{}}, "driver": {CSI: &v1.CSIPersistentVolumeSource{}},
		"iscsi": {ISCSI: &v1.ISCSIPersistentVolumeSource{}}, "read": {FC: &v1.FCVolumeSource{ReadOnly: true}},
		"path": {HostPath: &v1.HostPathVolumeSource{}},
	} {
		entries = append(entries, bound(name, source)...)
	}
	claim := func(name string, readOnly bool) v1.VolumeSource {
		return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}}
	}
	for name, c := range map[string]struct {
		source v1.VolumeSource
		want   bool
	}{
		"emptyDir":                {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, true},
		"secret":                  {v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}, true},
		"projected":               {v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}, true},
		"hostPath":                {v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}, false},
		"nfs":                     {v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}, false},
		"image":                   {v1.VolumeSource{Image: &v1.ImageVolumeSource{}}, false},
		"claim to a disk":         {claim("disk", false), true},
		"claim to a disk, read":   {claim("disk", true), false},
		"claim to a server":       {claim("server", false), false},
		"claim that is not known": {claim("none", false), false},
		"claim to a CSI volume":   {claim("driver", false), true},
		"the same, read":          {claim("driver", true), false},
		"claim to iSCSI":          {claim("iscsi", false), true},
		"claim to FC, read":       {claim("read", true), false},
		"readOnly in the volume":  {claim("read", false), true},
		"claim to a path":         {claim("path", false), false},
		"CSI in the pod":          {v1.VolumeSource{CSI: &v1.CSIVolumeSource{}}, true},
		"iSCSI in the pod, read":  {v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{ReadOnly: true}}, false},
		"FC in the pod":           {v1.VolumeSource{FC: &v1.FCVolumeSource{}}, true},
	} {
		w := newWorld()
		w.Objects, w.spec.Volumes[0].VolumeSource = podobjects.NewSet(entries), c.source
		if _, got, err := w.plan(nil); err != nil || got.Mounts[0].Relabel != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestSubPathOfClaim: what is mounted of a PersistentVolume has its name, as a kubelet has it.
func TestSubPathOfClaim(t *testing.T) {
	w := newWorld()
	w.spec.Volumes[0].VolumeSource = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}}
	w.mount(0, func(m *v1.VolumeMount) { m.SubPath = "a" })
	w.Objects = podobjects.NewSet([]podobjects.Entry{{
		Ref: podobjects.Ref{Kind: podobjects.Claim, Namespace: "default", Name: "disk"}, State: podobjects.Found,
		Object: &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv-1"}},
	}})
	want := []SubPath{{Index: 0, Volume: "pv-1", Root: "/pods/data", SubPath: "a"}}
	if _, got, err := w.plan(nil); err != nil || !slices.Equal(got.SubPaths, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestTarget: an ephemeral container sees the processes of the container that it
// names, as it runs now.
func TestTarget(t *testing.T) {
	w := newWorld()
	w.View.Containers = []observed.Container{{ID: "2", Name: "app", Attempt: 1}, {ID: "1", Name: "app"}}
	w.View.Sort()
	target := func(container *v1.Container) (string, error) {
		w.Container = container
		p, err := New(w.Input)
		if err != nil {
			return "", err
		}
		return p.TargetID, nil
	}
	debug := func(name string) *v1.Container {
		e := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}, TargetContainerName: name}
		w.spec.EphemeralContainers = []v1.EphemeralContainer{e}
		return (*v1.Container)(&w.spec.EphemeralContainers[0].EphemeralContainerCommon)
	}
	for of, want := range map[string]string{"": "", "app": "2"} {
		if got, err := target(debug(of)); got != want || err != nil {
			t.Errorf("%q: %q, %v", of, got, err)
		}
	}
	check.Fails(t, check.Err(target(debug("none"))), "a target that is not there was found")
	if got, err := target(w.app); got != "" || err != nil {
		t.Errorf("of another container: %q, %v", got, err)
	}
}

// TestRuntimeHandler: a container needs its RuntimeClass only for what its handler can do. The
// sandbox has the handler.
func TestRuntimeHandler(t *testing.T) {
	class := func(state podobjects.State) podobjects.Set {
		return podobjects.NewSet([]podobjects.Entry{{
			Ref: podobjects.Ref{Kind: podobjects.RuntimeClass, Name: "kata"}, State: state, Object: &nodev1.RuntimeClass{Handler: "kata-qemu"},
		}})
	}
	for _, c := range []struct {
		name         string
		objects      podobjects.Set
		mutate       func(*world)
		handler, err string
	}{
		{"known", class(podobjects.Found), func(*world) {}, "kata-qemu", ""},
		{"deleted", class(podobjects.Missing), func(*world) {}, "", ""},
		{"deleted, with users of its own", class(podobjects.Missing), func(w *world) { w.spec.HostUsers = new(false) }, "",
			`runtimeclass.node.k8s.io "kata" not found`},
		{"deleted, with the node's users", class(podobjects.Missing), func(w *world) { w.spec.HostUsers = new(true) }, "", ""},
		{"deleted, recursively read-only", class(podobjects.Missing), func(w *world) {
			w.mount(1, func(m *v1.VolumeMount) { m.RecursiveReadOnly = new(v1.RecursiveReadOnlyIfPossible) })
		}, "", `runtimeclass.node.k8s.io "kata" not found`},
		{"no apiserver, with users of its own", podobjects.Standalone(), func(w *world) { w.spec.HostUsers = new(false) }, "",
			"runtimeclass.node.k8s.io kata is not available: this node has no apiserver to read it from"},
	} {
		w := newWorld()
		w.Objects, w.spec.RuntimeClassName = c.objects, new("kata")
		c.mutate(w)
		p, err := New(w.Input)
		switch {
		case c.err != "":
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: error %v, want %s", c.name, err, c.err)
			}
		case err != nil || p.RuntimeHandler != c.handler:
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
	}
}

// TestResolveChangesNothing: a plan can be resolved again, and gives the same.
func TestResolveChangesNothing(t *testing.T) {
	w := newWorld()
	w.mount(2, func(m *v1.VolumeMount) { m.SubPath = "a" })
	p := check.Value(New(w.Input))(t)
	first := check.Value(p.Resolve(nil, MaxExpanded))(t)
	want := *first
	want.Mounts = slices.Clone(first.Mounts)
	first.Mounts[0].HostPath = "/elsewhere"
	if second, err := p.Resolve(nil, MaxExpanded); err != nil || !reflect.DeepEqual(*second, want) {
		t.Errorf("%+v, %v, want %+v", second, err, want)
	}
}

// TestDevicesThatAreMissing: a container whose devices this node can't give is not made without them.
func TestDevicesThatAreMissing(t *testing.T) {
	w := newWorld()
	w.spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("shared")}}
	if _, err := New(w.Input); err != nil {
		t.Errorf("a claim of another container: %v", err)
	}
	w.app.Resources.Claims = []v1.ResourceClaim{{Name: "gpu"}}
	if _, err := New(w.Input); err == nil || err.Error() != devicestate.UnclaimedIn(w.Pod, w.app) {
		t.Errorf("error %v", err)
	}
	w.Claims = true
	if _, err := New(w.Input); err != nil {
		t.Errorf("where claims can be prepared: %v", err)
	}
}

// TestRoom: what a container starts with counts together, as the kernel counts it.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(w *world)
		room  int
		wrong string
	}{
		{"fits", func(w *world) { w.variable("A", "0123456789"); w.app.Command = []string{"$(A)"} }, 21, ""},
		{"a variable", func(w *world) { w.variable("A", "0123456789"); w.variable("B", "$(A)$(A)") }, 31, "env B: "},
		{"with the command", func(w *world) { w.variable("A", "0123456789"); w.app.Command = []string{"$(A)", "$(A)"} }, 30, "command: "},
		{"with the arguments", func(w *world) { w.variable("A", "0123456789"); w.app.Args = []string{"$(A)", "$(A)"} }, 30, "args: "},
	} {
		w := newWorld()
		c.make(w)
		p := check.Value(New(w.Input))(t)
		_, err := p.Resolve(nil, c.room)
		want := ""
		if c.wrong != "" {
			want = c.wrong + ErrTooLong.Error()
		}
		if got := fmt.Sprint(err); (err != nil || want != "") && got != want {
			t.Errorf("%s: %s, want %s", c.name, got, want)
		}
	}
}
