package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// inside is a path as the first container of a pod has it.
func (b *bed) inside(t *testing.T, p *v1.Pod, path string) string {
	t.Helper()
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	pid := check.Value(node.ContainerPID(t.Context(), b.lab, id))(t)
	return fmt.Sprintf("/proc/%d/root%s", pid, path)
}

// awaitText polls until a file has a text.
func (b *bed) awaitText(t *testing.T, path, want string) {
	t.Helper()
	b.await(t, path+" says "+want, func() error {
		text, err := os.ReadFile(path)
		if err == nil && string(text) != want {
			err = fmt.Errorf("it says %q", text)
		}
		return err
	})
}

// mountType is the type of the file system that is mounted at a path in a container.
func mountType(t *testing.T, inside string) (kind, options string) {
	t.Helper()
	root, path, _ := strings.Cut(inside, "/root/")
	text := check.Value(os.ReadFile(root + "/mountinfo"))(t)
	for line := range strings.Lines(string(text)) {
		left, right, _ := strings.Cut(line, " - ")
		if f := strings.Fields(left); f[4] == "/"+path {
			kind, options = strings.Fields(right)[0], f[5]
		}
	}
	return kind, options
}

func (b *bed) configMap(t *testing.T, name string, data map[string]string) {
	t.Helper()
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: name}, Data: data}
	maps := b.admin.CoreV1().ConfigMaps(b.name)
	_, err := maps.Update(t.Context(), m, metav1.UpdateOptions{})
	if err != nil {
		_, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bed) patch(t *testing.T, name, patch string) {
	t.Helper()
	check.Value(b.admin.CoreV1().Pods(b.name).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

func volume(name string, source v1.VolumeSource) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: source}
}

func mounted(name string, change ...func(*v1.VolumeMount)) v1.VolumeMount {
	m := v1.VolumeMount{Name: name, MountPath: "/" + name}
	for _, f := range change {
		f(&m)
	}
	return m
}

func part(at, sub string) func(*v1.VolumeMount) {
	return func(m *v1.VolumeMount) { m.MountPath, m.SubPath = at, sub }
}

func named(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

// everything is a pod with volumes of all kinds that need no server.
func everything(s *v1.PodSpec) {
	size := resource.MustParse("8Mi")
	s.ServiceAccountName = "default"
	s.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(2000)), RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1000))}
	s.Volumes = []v1.Volume{
		volume("config", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("app")}}),
		volume("secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "app", DefaultMode: new(int32(0o400))}}),
		volume("all", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", Audience: "vault", ExpirationSeconds: new(int64(600))}},
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named("kube-root-ca.crt")}},
			{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
		}}}),
		volume("about", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "app", Resource: "limits.cpu"}},
		}}}),
		volume("cache", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &size}}),
		volume("data", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
	}
	c := &s.Containers[0]
	c.Env = []v1.EnvVar{{Name: "POD", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	c.VolumeMounts = []v1.VolumeMount{
		mounted("config"), mounted("secret"), mounted("all"), mounted("about"), mounted("cache"), mounted("data"),
		mounted("secret", part("/config/more/secret", "")), // below a volume that is read-only
		mounted("config", part("/one/key", "key")),
		mounted("data", part("/logs", "var/logs")),
		mounted("data", func(m *v1.VolumeMount) { m.MountPath, m.SubPathExpr = "/mine", "pods/$(POD)" }),
	}
}

func wantOwner(t *testing.T, path string, mode os.FileMode, uid, gid uint32) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Error(err)
		return
	}
	if s := info.Sys().(*syscall.Stat_t); info.Mode() != mode || s.Uid != uid || s.Gid != gid {
		t.Errorf("%s: mode %s of %d:%d; want %s of %d:%d", path, info.Mode(), s.Uid, s.Gid, mode, uid, gid)
	}
}

// TestVolumes has a container read what users put into its volumes, and what they change there.
//
//tier:real
func TestVolumes(t *testing.T) {
	t.Parallel()
	b := started(t, "volumes")
	b.configMap(t, "app", map[string]string{"key": "one", "gone": "x"})
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "app"}, StringData: map[string]string{"password": "p"}}
	check.Value(b.admin.CoreV1().Secrets(b.name).Create(t.Context(), secret, metav1.CreateOptions{}))(t)
	b.await(t, "the namespace has its account and certificates", func() error {
		_, err := b.admin.CoreV1().ConfigMaps(b.name).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		_, other := b.admin.CoreV1().ServiceAccounts(b.name).Get(t.Context(), "default", metav1.GetOptions{})
		return errors.Join(err, other)
	})
	p := b.pod("web", everything)
	p.Labels = map[string]string{"app": "web"}
	b.create(t, p)
	p = b.awaitPod(t, "web", "is ready", ready)

	at := func(path string) string { return b.inside(t, p, path) }
	for path, want := range map[string]string{
		"/config/key": "one", "/config/gone": "x", "/one/key": "one", "/secret/password": "p", "/config/more/secret/password": "p", "/all/labels": `app="web"`, "/about/labels": `app="web"`,
	} {
		b.awaitText(t, at(path), want)
	}
	wantOwner(t, at("/secret/password"), 0o440, 0, 2000)
	wantOwner(t, at("/all/token"), 0o640, 1000, 2000)
	wantOwner(t, at("/config/key"), 0o644, 0, 2000)
	wantOwner(t, at("/data"), 0o777|os.ModeDir|os.ModeSetgid, 0, 2000)
	wantOwner(t, at("/logs"), 0o777|os.ModeDir|os.ModeSetgid, 0, 2000)
	wantOwner(t, at("/data/pods/web"), 0o777|os.ModeDir|os.ModeSetgid, 0, 2000)
	for path, want := range map[string]string{"/secret": "tmpfs ro", "/all": "tmpfs ro", "/about": "tmpfs ro", "/cache": "tmpfs rw"} {
		kind, options := mountType(t, at(path))
		check.Equal(t, kind+" "+strings.Split(options, ",")[0], want, "%s", path)
	}
	if _, options := mountType(t, at("/config")); !strings.HasPrefix(options, "ro") {
		t.Errorf("/config is mounted %s", options)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(at("/cache"), &fs); err != nil || int64(fs.Blocks)*fs.Bsize != 8<<20 {
		t.Errorf("/cache has %d bytes, %v", int64(fs.Blocks)*fs.Bsize, err)
	}
	b.reviewToken(t, at("/all/token"))

	// What users change shows in the running container; a part of a volume stays as it was.
	begun := time.Now()
	b.configMap(t, "app", map[string]string{"key": "two"})
	b.awaitText(t, at("/config/key"), "two")
	t.Logf("a ConfigMap changed in the container after %v", time.Since(begun).Round(time.Millisecond))
	b.await(t, "a key that is gone", func() error {
		_, err := os.Lstat(at("/config/gone"))
		return check.That(os.IsNotExist(err), "it is there: %w", err)
	})
	b.awaitText(t, at("/config/more/secret/password"), "p")
	b.patch(t, "web", `{"metadata":{"labels":{"tier":"front"}}}`)
	b.awaitText(t, at("/about/labels"), "app=\"web\"\ntier=\"front\"")
	b.awaitText(t, at("/all/labels"), "app=\"web\"\ntier=\"front\"")
	b.awaitText(t, at("/one/key"), "one")

	// The next agent finds all standing, and keeps it up to date.
	check.Fatal(t, os.WriteFile(at("/logs/kept"), []byte("x"), 0o600))
	b.kill(t)
	b.configMap(t, "app", map[string]string{"key": "three"})
	b.start(t)
	b.awaitText(t, at("/config/key"), "three")
	b.awaitText(t, at("/data/var/logs/kept"), "x")
	b.awaitText(t, at("/config/more/secret/password"), "p")
	now := b.get(t, "web")
	check.Equal(t, now.Status.ContainerStatuses[0].RestartCount, 0, "the container was restarted")
	// An object that goes takes nothing away.
	check.Fatal(t, b.admin.CoreV1().ConfigMaps(b.name).Delete(t.Context(), "app", metav1.DeleteOptions{}))
	b.awaitEvent(t, "web", "FailedMount", `MountVolume.SetUp failed for volume "config" : configmap "app" not found`)
	b.awaitText(t, at("/config/key"), "three")
	check.Error(t, ready(b.get(t, "web")))
}

// reviewToken asks the apiserver what a token is good for.
func (b *bed) reviewToken(t *testing.T, path string) {
	t.Helper()
	text := check.Value(os.ReadFile(path))(t)
	review := check.Value(
		b.admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authv1.TokenReview{Spec: authv1.TokenReviewSpec{
			Token: string(text), Audiences: []string{"vault"},
		}}, metav1.CreateOptions{}))(t)
	if s := review.Status; !s.Authenticated || s.User.Username != "system:serviceaccount:"+b.name+":default" ||
		s.User.Extra["authentication.kubernetes.io/pod-name"][0] != "web" {
		t.Errorf("the token is good for: %+v", s)
	}
}

// awaitEvent waits until a pod has an event of a reason that says text.
func (b *bed) awaitEvent(t *testing.T, pod, reason, text string) {
	t.Helper()
	events, selector := b.admin.CoreV1().Events(b.name), "involvedObject.name="+pod+",reason="+reason
	b.awaitObjects(t, "event "+reason+" of pod "+pod, events, selector, func() error {
		list := check.Must(events.List(t.Context(), metav1.ListOptions{FieldSelector: selector}))
		var got []string
		for i := range list.Items {
			if strings.Contains(list.Items[i].Message, text) {
				return nil
			}
			got = append(got, list.Items[i].Message)
		}
		return fmt.Errorf("want %q, there are %q", text, got)
	})
}

func waiting(reason string) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Waiting != nil && c.State.Waiting.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("want a container that waits for %s: %+v", reason, p.Status.ContainerStatuses)
	}
}

// TestVolumesThatCannotBe tells users what is missing, in the words they know, and goes on when it
// is there.
//
//tier:real
func TestVolumesThatCannotBe(t *testing.T) {
	t.Parallel()
	b := started(t, "volumes-missing")
	b.configMap(t, "there", map[string]string{"key": "x"})
	with := func(source v1.VolumeSource, mounts ...v1.VolumeMount) func(*v1.PodSpec) {
		return func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{volume("v", source)}
			if len(mounts) == 0 {
				mounts = []v1.VolumeMount{mounted("v")}
			}
			s.Containers[0].VolumeMounts = mounts
		}
	}
	config := func(name string, items ...v1.KeyToPath) v1.VolumeSource {
		return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named(name), Items: items}}
	}
	for name, c := range map[string]struct {
		change func(*v1.PodSpec)
		want   string
	}{
		"no-map":    {with(config("none")), `configmap "none" not found`},
		"no-key":    {with(config("there", v1.KeyToPath{Key: "z", Path: "z"})), "configmap references non-existent config key: z"},
		"no-secret": {with(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "none"}}), `secret "none" not found`},
		"no-path": {with(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/no/such/path", Type: new(v1.HostPathDirectory)}}),
			"hostPath type check failed: /no/such/path is not a directory"},
		"csi": {with(v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "none.test"}}), "driver name none.test not found in the list of registered CSI drivers"},
	} {
		b.create(t, b.pod(name, c.change))
		b.awaitEvent(t, name, "FailedMount", `MountVolume.SetUp failed for volume "v" : `)
		b.awaitEvent(t, name, "FailedMount", c.want)
		b.awaitPod(t, name, "waits", waiting("ContainerCreating"))
	}
	b.configMap(t, "none", map[string]string{"key": "x"})
	b.awaitPod(t, "no-map", "is ready once its ConfigMap is there", ready)

	// A container that has the volume leads the next one to the node's own files.
	b.create(t, b.pod("attack", func(s *v1.PodSpec) {
		with(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: b.trap(t)}}, mounted("v", part("/got", "link/etc")))(s)
	}))
	b.awaitPod(t, "attack", "is refused", waiting("CreateContainerConfigError"))
	b.awaitEvent(t, "attack", "Failed", "points outside its volume through a symbolic link")
	b.create(t, b.pod("expr", with(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
		mounted("v", func(m *v1.VolumeMount) { m.SubPathExpr = "$(NONE)" }))))
	b.awaitPod(t, "expr", "is refused", waiting("CreateContainerConfigError"))
	b.awaitEvent(t, "expr", "Failed", "missing value for NONE")
}

// trap is a directory with a link to the root of the machine.
func (b *bed) trap(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check.Fatal(t, os.Symlink("/", filepath.Join(dir, "link")))
	return dir
}

// TestImageVolume reads the files of one image in a container of another (KEP-4639).
//
//tier:real
func TestImageVolume(t *testing.T) {
	t.Parallel()
	b := started(t, "image-volume")
	b.create(t, b.pod("web", func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("tool", v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: lab.WorkImage, PullPolicy: v1.PullIfNotPresent}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("tool")}
	}))
	p := b.awaitPod(t, "web", "is ready", ready)
	entries, err := os.ReadDir(b.inside(t, p, "/tool"))
	if err != nil || len(entries) == 0 {
		t.Errorf("in the volume: %v, %v", entries, err)
	}
	if _, options := mountType(t, b.inside(t, p, "/tool")); !strings.HasPrefix(options, "ro") {
		t.Errorf("it is mounted %s", options)
	}
	b.create(t, b.pod("none", func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("tool", v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: lab.WorkImage + "-none", PullPolicy: v1.PullNever}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("tool")}
	}))
	b.awaitPod(t, "none", "says that the image is not there", waiting("ErrImageNeverPull"))
}

// claim makes a claim of that name for a directory of the node, and what it is bound to.
func (b *bed) claim(t *testing.T, name, dir string) {
	t.Helper()
	b.claimed(t, name, v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: dir}},
		NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "test", Operator: v1.NodeSelectorOpIn, Values: []string{b.name}}},
		}}}},
	})
}

// claimed makes a volume and its claim. The caller says what volume, the rest is added where it is not said.
func (b *bed) claimed(t *testing.T, name string, spec v1.PersistentVolumeSpec) *v1.PersistentVolume {
	t.Helper()
	if spec.Capacity == nil {
		spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	}
	spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: b.name + "-" + name}, Spec: spec}
	check.Value(b.admin.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		b.admin.CoreV1().PersistentVolumes().Delete(context.Background(), pv.Name, metav1.DeleteOptions{}) //nolint:errcheck // it goes with the plane
	})
	pvc := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: name}, Spec: v1.PersistentVolumeClaimSpec{
		StorageClassName: new(""), AccessModes: pv.Spec.AccessModes, VolumeName: pv.Name,
		Resources: v1.VolumeResourceRequirements{Requests: pv.Spec.Capacity},
	}}
	check.Value(b.admin.CoreV1().PersistentVolumeClaims(b.name).Create(t.Context(), pvc, metav1.CreateOptions{}))(t)
	return pv
}

// TestClaim runs a pod on a directory of its node that was claimed; what it wrote is there for the next.
//
//tier:real
func TestClaim(t *testing.T) {
	t.Parallel()
	b := started(t, "claim")
	disk := t.TempDir()
	b.claim(t, "data", disk)
	check.Value(b.admin.CoreV1().PersistentVolumes().Patch(t.Context(), b.name+"-data", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"pv.beta.kubernetes.io/gid":"3456"}}}`), metav1.PatchOptions{}))(t)
	claims := func(s *v1.PodSpec) {
		s.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(2000))}
		s.Volumes = []v1.Volume{volume("data", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("data")}
	}
	for _, name := range []string{"first", "second"} {
		b.create(t, b.pod(name, claims))
		p := b.awaitPod(t, name, "is ready", ready)
		wantOwner(t, b.inside(t, p, "/data"), 0o775|os.ModeDir|os.ModeSetgid, 0, 2000)
		if u := p.Status.ContainerStatuses[0].User; u == nil || !slices.Contains(u.Linux.SupplementalGroups, 3456) {
			t.Errorf("the group of the PersistentVolume is not one of its container: %+v", u)
		}
		if name == "first" {
			check.Fatal(t, os.WriteFile(b.inside(t, p, "/data/file"), []byte("kept"), 0o600))
		} else {
			b.awaitText(t, b.inside(t, p, "/data/file"), "kept")
		}
		b.remove(t, name)
		b.awaitGone(t, name)
	}
	if text, err := os.ReadFile(filepath.Join(disk, "file")); string(text) != "kept" || err != nil {
		t.Errorf("on the disk: %q, %v", text, err)
	}
}
