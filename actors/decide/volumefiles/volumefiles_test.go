package volumefiles

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/tests/check"
)

func ptr[T any](v T) *T { return &v }

func named(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

func source() *Source {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1", Labels: map[string]string{"app": "web", "tier": "1"}},
		Spec:       v1.PodSpec{ServiceAccountName: "robot", Containers: []v1.Container{{Name: "app"}, {Name: "side"}}},
	}
	in := func(k podobjects.Kind, name string) podobjects.Ref {
		return podobjects.Ref{Kind: k, Namespace: "shop", Name: name}
	}
	token := in(podobjects.Token, "robot")
	token.ExpirationSeconds = 3600
	return &Source{
		Pod: pod,
		Objects: podobjects.NewSet([]podobjects.Entry{
			{Ref: in(podobjects.ConfigMap, "c"), State: podobjects.Found, Object: &v1.ConfigMap{
				Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"bin": {0, 255}},
			}},
			{Ref: in(podobjects.Secret, "s"), State: podobjects.Found, Object: &v1.Secret{Data: map[string][]byte{"password": []byte("x")}}},
			{Ref: in(podobjects.ConfigMap, "gone"), State: podobjects.Missing},
			{Ref: in(podobjects.Secret, "gone"), State: podobjects.Missing},
			{Ref: in(podobjects.Secret, "denied"), State: podobjects.Failed, Message: `secrets "denied" is forbidden`},
			{Ref: token, State: podobjects.Found, Object: &podobjects.IssuedToken{Value: "jwt"}},
		}),
		Allocatable: v1.ResourceList{v1.ResourceMemory: resource.MustParse("4Gi")},
	}
}

func configMap(name string, change ...func(*v1.ConfigMapVolumeSource)) v1.VolumeSource {
	c := &v1.ConfigMapVolumeSource{LocalObjectReference: named(name)}
	for _, f := range change {
		f(c)
	}
	return v1.VolumeSource{ConfigMap: c}
}

func items(keys ...v1.KeyToPath) func(*v1.ConfigMapVolumeSource) {
	return func(c *v1.ConfigMapVolumeSource) { c.Items = keys }
}

func projected(sources ...v1.VolumeProjection) v1.VolumeSource {
	return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources, DefaultMode: ptr(int32(0o640))}}
}

func field(at, of string) v1.DownwardAPIVolumeFile {
	return v1.DownwardAPIVolumeFile{Path: at, FieldRef: &v1.ObjectFieldSelector{FieldPath: of}}
}

// show writes a content as path=data:mode[:user], and the rest behind it.
func show(c *Content) string {
	var out []string
	for _, f := range c.Files {
		text := fmt.Sprintf("%s=%q:%o", f.Path, f.Data, f.Mode)
		if f.User != nil {
			text += fmt.Sprintf(":u%d", *f.User)
		}
		out = append(out, text)
	}
	if c.Group != nil {
		out = append(out, fmt.Sprintf("g%d", *c.Group))
	}
	if c.Memory {
		out = append(out, "memory")
	}
	return strings.Join(out, " ")
}

var token = v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}

func TestContent(t *testing.T) {
	none := func(*v1.Pod) {}
	group := func(p *v1.Pod) { p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(7))} }
	user := func(p *v1.Pod) { p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr(int64(1000))} }
	users := func(p *v1.Pod) {
		user(p)
		p.Spec.Containers[1].SecurityContext = &v1.SecurityContext{RunAsUser: ptr(int64(2000))}
	}
	for _, c := range []struct {
		name   string
		pod    func(*v1.Pod)
		volume v1.VolumeSource
		want   string
	}{
		{"all keys of a configMap", none, configMap("c"), `a="1":644 b="2":644 bin="\x00\xff":644`},
		{"a default mode", none, configMap("c", func(c *v1.ConfigMapVolumeSource) { c.DefaultMode = ptr(int32(0o400)) }), `a="1":400 b="2":400 bin="\x00\xff":400`},
		{"items", none, configMap("c", items(v1.KeyToPath{Key: "b", Path: "etc/x"}, v1.KeyToPath{Key: "bin", Path: "y", Mode: ptr(int32(0o755))})),
			`etc/x="2":644 y="\x00\xff":755`},
		{"optional, not there", none, configMap("gone", func(c *v1.ConfigMapVolumeSource) { c.Optional = ptr(true) }), ""},
		{"optional key, not there", none, configMap("c", items(v1.KeyToPath{Key: "z", Path: "z"}, v1.KeyToPath{Key: "a", Path: "a"}),
			func(c *v1.ConfigMapVolumeSource) { c.Optional = ptr(true) }), `a="1":644`},
		{"a secret lies in memory", none, v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", DefaultMode: ptr(int32(0o600))}}, `password="x":600 memory`},
		{"a group can read", group, v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", DefaultMode: ptr(int32(0o600))}}, `password="x":640 g7 memory`},
		{"downward", none, v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			field("labels", "metadata.labels"), field("n/name", "metadata.name"),
			{Path: "limit", Mode: ptr(int32(0o400)), ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "app", Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}},
		}}}, `labels="app=\"web\"\ntier=\"1\"":644 limit="4096":400 n/name="web":644 memory`},
		{"all sources of projected, the later one wins", none, projected(
			v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named("c"), Items: []v1.KeyToPath{{Key: "a", Path: "x"}}}},
			v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: named("s"), Items: []v1.KeyToPath{{Key: "password", Path: "./x"}}}},
			v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{field("namespace", "metadata.namespace")}}},
			token,
		), `namespace="shop":640 token="jwt":640 x="x":640 memory`},
		{"a token of one user", user, projected(token), `token="jwt":600:u1000 memory`},
		{"a token of two users", users, projected(token), `token="jwt":640 memory`},
		{"a token of a group", group, projected(token), `token="jwt":640 g7 memory`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := source()
			c.pod(s.Pod)
			got := check.Value(s.Of(&v1.Volume{Name: "v", VolumeSource: c.volume}))(t)
			check.Equal(t, show(got), c.want, "got")
		})
	}
}

func TestErrors(t *testing.T) {
	item := func(p string) v1.VolumeSource { return configMap("c", items(v1.KeyToPath{Key: "a", Path: p})) }
	for _, c := range []struct {
		want   string
		state  podobjects.State
		volume v1.VolumeSource
	}{
		{`configmap "gone" not found`, podobjects.Missing, configMap("gone")},
		{`secret "gone" not found`, podobjects.Missing, v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "gone"}}},
		{`secrets "denied" is forbidden`, podobjects.Failed, v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "denied", Optional: ptr(true)}}},
		{`configmap shop/new is not known yet`, podobjects.Unknown, configMap("new", func(c *v1.ConfigMapVolumeSource) { c.Optional = ptr(true) })},
		{`configmap references non-existent config key: z`, podobjects.Failed, configMap("c", items(v1.KeyToPath{Key: "z", Path: "z"}))},
		{`references non-existent secret key: z`, podobjects.Failed, v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", Items: []v1.KeyToPath{{Key: "z", Path: "z"}}}}},
		{`invalid path: must be relative path: /etc/passwd`, podobjects.Failed, item("/etc/passwd")},
		{`invalid path: must not contain '..': a/../../b`, podobjects.Failed, item("a/../../b")},
		{`invalid path: must not start with '..': ..data`, podobjects.Failed, item("..data")},
		{`invalid path: must not be empty: ""`, podobjects.Failed, item("")},
		{`invalid path: must not be empty: "./"`, podobjects.Failed, item("./")},
		{`invalid path: filenames must be less than or equal to 255 characters`, podobjects.Failed, item(strings.Repeat("x", 256))},
		{`path "a/b" needs "a" as a directory, which is a file of the same volume`, podobjects.Failed,
			configMap("c", items(v1.KeyToPath{Key: "a", Path: "a"}, v1.KeyToPath{Key: "b", Path: "a/b"}))},
		{`x: unsupported fieldPath: status.phase`, podobjects.Failed, v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{field("x", "status.phase")}}}},
		{`[configmap "gone" not found, secret "gone" not found]`, podobjects.Failed, projected(
			v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named("gone")}},
			v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named("new")}},
			v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: named("gone")}})},
		{`configmap shop/new is not known yet`, podobjects.Unknown, projected(
			v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named("new")}},
			v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named("new2")}})},
	} {
		_, err := source().Of(&v1.Volume{Name: "v", VolumeSource: c.volume})
		if err == nil || err.Error() != c.want || podobjects.StateOf(err) != c.state {
			t.Errorf("got  %v (%v)\nwant %v (%v)", err, podobjects.StateOf(err), c.want, c.state)
		}
	}
}

// Whatever items say, what comes of them can be written below one directory,
// and says the same again.
func TestPathsStayBelow(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "b", "..", ".", "", "..x", "c.d", "x\x00"})
	rapid.Check(t, func(t *rapid.T) {
		s := source()
		var list []v1.KeyToPath
		for range rapid.IntRange(1, 4).Draw(t, "items") {
			list = append(list, v1.KeyToPath{Key: "a", Path: strings.Join(rapid.SliceOfN(piece, 1, 4).Draw(t, "path"), "/")})
		}
		v := &v1.Volume{Name: "v", VolumeSource: configMap("c", items(list...))}
		got, err := s.Of(v)
		if err != nil {
			return
		}
		for i, f := range got.Files {
			if path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || strings.HasPrefix(f.Path, "..") || strings.Contains(f.Path, "/..") && slices.Contains(strings.Split(f.Path, "/"), "..") {
				t.Fatalf("path %q", f.Path)
			}
			for j, o := range got.Files {
				if i != j && (o.Path == f.Path || strings.HasPrefix(o.Path, f.Path+"/")) {
					t.Fatalf("%q and %q", f.Path, o.Path)
				}
			}
		}
		again, err := s.Of(v)
		if err != nil || !slices.EqualFunc(got.Files, again.Files, func(a, b File) bool { return a.Path == b.Path && bytes.Equal(a.Data, b.Data) && a.Mode == b.Mode }) {
			t.Fatalf("not the same again: %v, %v", again, err)
		}
	})
}
