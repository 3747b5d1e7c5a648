package podobjects

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/podtest"
)

func ref(k Kind, name string) Ref { return Ref{Kind: k, Namespace: "shop", Name: name} }

func token(account, audience string, seconds int64) Ref {
	return Ref{Kind: Token, Namespace: "shop", Name: account, Audience: audience, ExpirationSeconds: seconds}
}

func object(name, version string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u-" + "1", ResourceVersion: version}
}

func bound(claim, volume string) Entry {
	return Entry{Ref: ref(Claim, claim), State: Found, Object: &v1.PersistentVolumeClaim{
		ObjectMeta: object(claim, "1"), Spec: v1.PersistentVolumeClaimSpec{VolumeName: volume},
	}}
}

func local(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

var services = Ref{Kind: Services, Namespace: "shop"}

func TestRefs(t *testing.T) {
	seconds := int64(600)
	for _, c := range []struct {
		name  string
		mut   func(*v1.Pod)
		known []Entry
		want  []Ref
	}{
		{name: "nothing but services", mut: func(*v1.Pod) {}},
		{name: "env of all kinds of containers", mut: func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Env: []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{
				ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local("init"), Key: "k"},
			}}}}}
			p.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{
				{SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("main")}},
				{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("init")}},
			}
			p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
				Env: []v1.EnvVar{{Name: "A", Value: "x"}, {Name: "B", ValueFrom: &v1.EnvVarSource{
					SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local("debug"), Key: "k"},
				}}},
			}}}
		}, want: []Ref{ref(ConfigMap, "init"), ref(Secret, "debug"), ref(Secret, "main")}},
		{name: "volumes", mut: func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{
				{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}},
				{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: local("c")}}},
				{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{NodePublishSecretRef: &v1.LocalObjectReference{Name: "csi"}}}},
				{VolumeSource: v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{SecretRef: &v1.LocalObjectReference{Name: "chap"}}}},
			}
		}, want: []Ref{ref(ConfigMap, "c"), ref(Secret, "chap"), ref(Secret, "csi"), ref(Secret, "s")}},
		{name: "projected", mut: func(p *v1.Pod) {
			p.Spec.ServiceAccountName = "robot"
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "vault", Audience: "vault", ExpirationSeconds: &seconds}},
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: local("kube-root-ca.crt")}},
				{Secret: &v1.SecretProjection{LocalObjectReference: local("s")}},
				{DownwardAPI: &v1.DownwardAPIProjection{}},
			}}}}}
		}, want: []Ref{ref(ConfigMap, "kube-root-ca.crt"), ref(Secret, "s"), token("robot", "", 3600), token("robot", "vault", 600)}},
		{name: "trust bundles and certificates", mut: func(p *v1.Pod) {
			name, signer := "ca", "example.com/mesh"
			p.Spec.Volumes = []v1.Volume{{Name: "creds", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{PodCertificate: &v1.PodCertificateProjection{SignerName: signer}},
				{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &name}},
				{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"b": "2", "a": "1"}}}},
				{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: &metav1.LabelSelector{}}},
				{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{SignerName: &signer}},
				{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{}},
				{PodCertificate: &v1.PodCertificateProjection{SignerName: signer}},
			}}}}}
		}, want: []Ref{
			services, {Kind: TrustBundle, Name: "ca"}, {Kind: SignerBundles, Name: "example.com/mesh"},
			{Kind: SignerBundles, Name: "example.com/mesh", Selector: "a=1,b=2"}, {Kind: SignerBundles, Name: "example.com/mesh", Selector: "none,!none"},
			{Kind: Certificate, Namespace: "shop", Name: "creds"}, {Kind: Certificate, Namespace: "shop", Name: "creds", Source: 6},
		}},
		{name: "claims not bound, or not known to be", mut: claims, known: []Entry{bound("data", "")},
			want: []Ref{ref(Claim, "data"), ref(Claim, "web-scratch")}},
		{name: "a bound claim", mut: claims, known: []Entry{bound("data", "pv1")},
			want: []Ref{ref(Claim, "data"), ref(Claim, "web-scratch"), {Kind: Volume, Name: "pv1"}}},
		{name: "a claim that is not there", mut: claims, known: []Entry{{Ref: ref(Claim, "data"), State: Missing}},
			want: []Ref{ref(Claim, "data"), ref(Claim, "web-scratch")}},
		{name: "the secrets of a volume", mut: claims, known: []Entry{bound("data", "pv1"), {
			Ref: Ref{Kind: Volume, Name: "pv1"}, State: Found, Object: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
				PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
					NodeStageSecretRef:   &v1.SecretReference{Namespace: "storage", Name: "stage"},
					NodePublishSecretRef: &v1.SecretReference{Namespace: "storage", Name: "publish"},
					NodeExpandSecretRef:  &v1.SecretReference{Namespace: "storage", Name: "expand"},
					// The controller has these; no node gets them.
					ControllerPublishSecretRef: &v1.SecretReference{Namespace: "storage", Name: "attach"},
					ControllerExpandSecretRef:  &v1.SecretReference{Namespace: "storage", Name: "grow"},
				}},
			}},
		}}, want: []Ref{{Kind: Secret, Namespace: "storage", Name: "expand"}, {Kind: Secret, Namespace: "storage", Name: "publish"}, {Kind: Secret, Namespace: "storage", Name: "stage"}, ref(Claim, "data"), ref(Claim, "web-scratch"), {Kind: Volume, Name: "pv1"}}},
		{name: "a runtime class", mut: func(p *v1.Pod) { p.Spec.RuntimeClassName = new("kata") }, want: []Ref{{Kind: RuntimeClass, Name: "kata"}}},
		{name: "pull secrets, one of them without a name", mut: func(p *v1.Pod) {
			p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "reg"}, {}, {Name: "a"}, {Name: "reg"}}
		}, want: []Ref{ref(Secret, "a"), ref(Secret, "reg")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
			c.mut(pod)
			podtest.UseVolumes(&pod.Spec)
			pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "unused", VolumeSource: v1.VolumeSource{
				Secret: &v1.SecretVolumeSource{SecretName: "nobody's"},
			}})
			check.Same(t, Refs(pod, NewSet(c.known)), withServices(c.want), "got")
		})
	}
}

// withServices adds the services that each pod uses.
func withServices(refs []Ref) []Ref {
	if slices.Contains(refs, services) {
		return refs
	}
	return append(refs, services)
}

func claims(p *v1.Pod) {
	p.Spec.Volumes = []v1.Volume{
		{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}},
	}
}

func TestErrorsAreTheKnownOnes(t *testing.T) {
	set := NewSet([]Entry{
		{Ref: ref(ConfigMap, "gone"), State: Missing},
		{Ref: ref(Secret, "gone"), State: Missing},
		{Ref: ref(Claim, "gone"), State: Missing},
		{Ref: ref(Secret, "denied"), State: Failed, Message: `secrets "denied" is forbidden`},
	})
	one := func(_ any, err error) error { return err }
	for _, c := range []struct {
		err   error
		state State
		want  string
	}{
		{one(set.ConfigMap("shop", "gone")), Missing, `configmap "gone" not found`},
		{one(set.Secret("shop", "gone")), Missing, `secret "gone" not found`},
		{one(set.Claim("shop", "gone")), Missing, `persistentvolumeclaim "gone" not found`},
		{one(set.Secret("shop", "denied")), Failed, `secrets "denied" is forbidden`},
		{one(set.Secret("other", "denied")), Unknown, `secret other/denied is not known yet`},
		{one(set.Volume("pv1")), Unknown, `persistentvolume pv1 is not known yet`},
		{one(set.Token(token("robot", "", 600))), Unknown, `token of serviceaccount shop/robot is not known yet`},
		{one(set.Services("shop")), Unknown, `services of shop is not known yet`},
		{one(Standalone().ConfigMap("shop", "c")), unavailable, `configmap shop/c is not available: this node has no apiserver to read it from`},
		{one(Standalone().Services("shop")), Found, ""},
		{one(set.WithoutServices().Services("shop")), Found, ""},
	} {
		got := ""
		if c.err != nil {
			got = c.err.Error()
		}
		if got != c.want || StateOf(c.err) != c.state {
			t.Errorf("got %q, %v, want %q, %v", got, StateOf(c.err), c.want, c.state)
		}
	}
}

func TestFoundObjects(t *testing.T) {
	c, s := &v1.ConfigMap{ObjectMeta: object("c", "1")}, &v1.Secret{ObjectMeta: object("s", "1")}
	tok := &IssuedToken{Value: "abc", Expires: time.Unix(1, 0)}
	kubernetes := &v1.Service{}
	set := NewSet([]Entry{
		{Ref: services, State: Found, Object: &ServiceList{Items: []*v1.Service{kubernetes}}},
		{Ref: token("robot", "", 600), State: Found, Object: tok},
		{Ref: ref(Secret, "s"), State: Found, Object: s},
		{Ref: ref(ConfigMap, "c"), State: Found, Object: c},
	})
	if got, err := set.ConfigMap("shop", "c"); got != c || err != nil {
		t.Errorf("ConfigMap: %v, %v", got, err)
	}
	if got, err := set.Secret("shop", "s"); got != s || err != nil {
		t.Errorf("Secret: %v, %v", got, err)
	}
	if got, err := set.Token(token("robot", "", 600)); got != tok || err != nil {
		t.Errorf("Token: %v, %v", got, err)
	}
	if got, err := set.Services("shop"); len(got) != 1 || got[0] != kubernetes || err != nil {
		t.Errorf("Services: %v, %v", got, err)
	}
	if !set.Settled([]Ref{services, ref(Secret, "s")}) || set.Settled([]Ref{services, ref(Secret, "t")}) {
		t.Error("Settled is wrong")
	}
}

func TestEqualGoesByVersion(t *testing.T) {
	of := func(version string) Set {
		return NewSet([]Entry{{Ref: ref(Secret, "s"), State: Found, Object: &v1.Secret{ObjectMeta: object("s", version)}}})
	}
	tokens := func(value string) Set {
		return NewSet([]Entry{{Ref: token("a", "", 1), State: Found, Object: &IssuedToken{Value: value}}})
	}
	for _, c := range []struct {
		name string
		a, b Set
		want bool
	}{
		{"both empty", Set{}, NewSet(nil), true},
		{"the same version, read twice", of("1"), of("1"), true},
		{"another version", of("1"), of("2"), false},
		{"no version says nothing", of(""), of(""), false},
		{"the same token", tokens("a"), tokens("a"), true},
		{"another token", tokens("a"), tokens("b"), false},
		{"another state", NewSet([]Entry{{Ref: services}}), NewSet([]Entry{{Ref: services, State: Missing}}), false},
		{"another reason", NewSet([]Entry{{Ref: services, Message: "a"}}), NewSet([]Entry{{Ref: services, Message: "b"}}), false},
		{"more", NewSet([]Entry{{Ref: services}}), Set{}, false},
		{"standalone", Standalone(), Set{}, false},
		{"without services", Set{}.WithoutServices(), Set{}, false},
	} {
		if got := c.a.Equal(c.b); got != c.want || c.b.Equal(c.a) != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if !c.a.Equal(c.a) {
			t.Errorf("%s: not equal to itself", c.name)
		}
	}
}

func TestSetFindsWhatItHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		refs := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Ref {
			return Ref{
				Kind:      Kind(rapid.IntRange(int(ConfigMap), int(Certificate)).Draw(t, "kind")),
				Namespace: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "namespace"),
				Name:      rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "name"),
				Audience:  rapid.SampledFrom([]string{"", "v"}).Draw(t, "audience"),
				Selector:  rapid.SampledFrom([]string{"", "a=b"}).Draw(t, "selector"),
				Source:    rapid.Int32Range(0, 1).Draw(t, "source"),
			}
		}), 1, 20, rapid.ID).Draw(t, "refs")
		in := rapid.IntRange(0, len(refs)).Draw(t, "in")
		var entries []Entry
		for _, r := range refs[:in] {
			entries = append(entries, Entry{Ref: r, State: Missing})
		}
		set := NewSet(entries)
		for i, r := range refs {
			if got := set.Get(r); got.Ref != r || (got.State == Missing) != (i < in) {
				t.Fatalf("%v: got %+v", r, got)
			}
		}
		if !slices.IsSortedFunc(set.Entries(), func(a, b Entry) int { return a.Ref.Compare(b.Ref) }) {
			t.Fatal("not sorted")
		}
	})
}
