package imagepull

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// pullSecret has, for each key, a user of the key's name.
func pullSecret(t *testing.T, name string, keys ...string) *v1.Secret {
	t.Helper()
	auths := map[string]login{}
	for _, k := range keys {
		auths[k] = login{Auth: base64.StdEncoding.EncodeToString([]byte(k + ":pass:word"))}
	}
	data := check.Value(json.Marshal(map[string]any{"auths": auths}))(t)
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: data}}
}

func credentialsOf(image string, secrets []*v1.Secret) (fit []Offer, broken []string) {
	f := NewPullSecrets(true, secrets, nil).Fit(image)
	return slices.Collect(f.All()), f.Broken
}

// TestManyCredentials: reading a secret with as many as one may have, and finding what fits, is linear.
func TestManyCredentials(t *testing.T) {
	linear.Held(t, 1000, func(n int) func() {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprintf("[r%d]eg.io", i)
		}
		s := pullSecret(t, "s", keys...)
		return func() {
			fit, _ := credentialsOf("reg.io/app", []*v1.Secret{s})
			check.Equal(t, len(fit), n, "credentials that fit")
		}
	})
}

// TestFitSame: what fits is the same as long as the secrets say the same.
func TestFitSame(t *testing.T) {
	fit := func(known bool, absent []string, keys ...string) *Fit {
		return NewPullSecrets(known, []*v1.Secret{pullSecret(t, "s", keys...)}, absent).Fit("reg.io/team/app")
	}
	all := []*Fit{
		nil, fit(true, nil, "reg.io"), fit(false, nil, "reg.io"), fit(true, []string{"a"}, "reg.io"),
		fit(true, nil, "reg.io", "reg.io/team"), fit(true, nil, "reg.io/team"), fit(true, nil),
		NewPullSecrets(true, []*v1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "s"}}}, nil).Fit("reg.io/team/app"),
	}
	for i, a := range all {
		for j, b := range all {
			check.Equal(t, a.Same(b), i == j, "%d is the same as %d", i, j)
		}
	}
	check.Equal(t, fit(true, nil, "reg.io", "other.io").Same(all[1]), true, "with one that does not fit")
}

func TestCredentials(t *testing.T) {
	for _, c := range []struct {
		image string
		keys  []string
		want  []string
	}{
		{"reg.io/team/app:1", []string{"reg.io"}, []string{"reg.io"}},
		{"reg.io/team/app:1", []string{"https://reg.io"}, []string{"https://reg.io"}},
		{"reg.io/team/app:1", []string{"https://reg.io/v2/"}, []string{"https://reg.io/v2/"}},
		{"reg.io/team/app:1", []string{"http://reg.io/v1/team"}, []string{"http://reg.io/v1/team"}},
		{"reg.io/team/app:1", []string{"reg.io", "reg.io/team", "reg.io/team/app", "reg.io/other"}, []string{"reg.io/team/app", "reg.io/team", "reg.io"}},
		{"reg.io:5000/app", []string{"reg.io", "reg.io:5000", "reg.io:5001"}, []string{"reg.io:5000"}},
		{"reg.io/app", []string{"reg.io:443"}, nil},
		{"eu.reg.io/app", []string{"*.reg.io", "reg.io", "*.io", "*.*.io", "e?.reg.io"}, []string{"e?.reg.io", "*.reg.io", "*.*.io"}},
		{"eu.reg.io/app", []string{"[.reg.io"}, nil},
		{"nginx", []string{"https://index.docker.io/v1/"}, []string{"https://index.docker.io/v1/"}},
		{"library/nginx", []string{"index.docker.io"}, []string{"index.docker.io"}},
		{"docker.io/me/app", []string{"https://index.docker.io/v1/", "docker.io"}, []string{"docker.io"}},
		{"docker.io/me/app", []string{"docker.io/me"}, []string{"docker.io/me"}},
		{"reg.io/app", []string{"https://index.docker.io/v1/"}, nil},
		{"localhost:5000/app", []string{"localhost:5000"}, []string{"localhost:5000"}},
		{"reg.io/app@sha256:4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1", []string{"reg.io"}, []string{"reg.io"}},
		{"Not An Image", []string{"reg.io"}, nil},
	} {
		fit, broken := credentialsOf(c.image, []*v1.Secret{pullSecret(t, "s", c.keys...)})
		var got []string
		for _, f := range fit {
			got = append(got, f.Username)
			if !strings.HasSuffix(f.Password, "pass:word") {
				t.Errorf("%s: password %q", c.image, f.Password)
			}
		}
		// The user of a key with a colon ends there.
		want := make([]string, 0, len(c.want))
		for _, w := range c.want {
			user, _, _ := strings.Cut(w, ":")
			want = append(want, user)
		}
		if !slices.Equal(got, want) && (len(got) > 0 || len(want) > 0) || len(broken) > 0 {
			t.Errorf("%s with %v: %v, %v; want %v", c.image, c.keys, got, broken, want)
		}
	}
}

func TestCredentialsOfSeveralSecrets(t *testing.T) {
	old := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Type: v1.SecretTypeDockercfg, Data: map[string][]byte{
		v1.DockerConfigKey: []byte(`{"reg.io": {"username": "u", "password": "p", "email": "e"}}`),
	}}
	opaque := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "opaque"}, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte("{}")}}
	bad := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte("{")}}
	noAuth := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "no-auth"}, Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		v1.DockerConfigJsonKey: []byte(`{"auths":{"reg.io":{"auth":"%%%"}}}`),
	}}
	unpadded := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "unpadded"}, Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		v1.DockerConfigJsonKey: []byte(`{"auths":{"reg.io":{"auth":"` + base64.RawStdEncoding.EncodeToString([]byte("x:y")) + `"}}}`),
	}}
	fit, broken := credentialsOf("reg.io/app", []*v1.Secret{opaque, pullSecret(t, "s", "reg.io"), bad, old, noAuth, unpadded, old})
	of := func(secret, user, password, email string) Offer {
		return Offer{Credential{user, password, email}, Source{Owner: OfSecret, Name: secret}}
	}
	want := []Offer{of("s", "reg.io", "pass:word", ""), of("old", "u", "p", "e"), of("unpadded", "x", "y", "")}
	check.Same(t, fit, want, "got")
	check.Same(t, broken, []string{"opaque", "bad", "no-auth"}, "broken")
}

// TestOneKeyring: the pull secrets of a pod count together.
func TestOneKeyring(t *testing.T) {
	for _, c := range []struct{ image, first, second, want string }{
		{"quay.io/org/app", "quay.io", "quay.io/org", "second quay.io/org, first quay.io"},
		{"quay.io/org/app", "quay.io", "quay.io", "first quay.io, second quay.io"},
		{"quay.io/org/app", "*.io", "quay.io", "second quay.io, first *.io"},
		{"nginx", "index.docker.io", "docker.io", "second docker.io"},
		{"nginx", "index.docker.io", "quay.io", "first index.docker.io"},
	} {
		fit, _ := credentialsOf(c.image, []*v1.Secret{pullSecret(t, "first", c.first), pullSecret(t, "second", c.second)})
		var got []string
		for _, o := range fit {
			got = append(got, o.Source.Name+" "+o.Username)
		}
		check.Equal(t, strings.Join(got, ", "), c.want, "%s with %s and %s", c.image, c.first, c.second)
	}
}

// TestMatch has the cases of Kubernetes' own test of matchImages (pkg/credentialprovider TestURLsMatch), and more.
func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, image string
		want           bool
	}{
		{"*.kubernetes.io", "prefix.kubernetes.io/a", true},
		{"prefix.*.io", "prefix.kubernetes.io/a", true},
		{"prefix.kubernetes.*", "prefix.kubernetes.io/a", true},
		{"*-good.kubernetes.io", "prefix-good.kubernetes.io/a", true},
		{"*.kubernetes.io/blah", "prefix.kubernetes.io/blah", true},
		{"prefix.*.io/foo", "prefix.kubernetes.io/foo/bar", true},
		{"*.kubernetes.io:1111/blah", "prefix.kubernetes.io:1111/blah", true},
		{"prefix.*.io:1111/foo", "prefix.kubernetes.io:1111/foo/bar", true},
		{"*.kubernetes.io", "kubernetes.io/a", false},
		{"*.*.kubernetes.io", "prefix.kubernetes.io/a", false},
		{"my_registry.corp", "my_registry.corp/team/app:1", true},
		{"*", "my_registry.corp/app", false},
		{"*.*.kubernetes.io", "kubernetes.io/a", false},
		{"*kubernetes.io", "a.kubernetes.io/a", false},
		{"*kubernetes.io", "kubernetes.io/a", true},
		{"*.*.*.kubernetes.io", "a.b.c.kubernetes.io/a", true},
		{"kubernetes.io", "kubernetes.com/a", false},
		{"k*.io", "quay.io/a", false},
		{"*.kubernetes.io:1234/blah", "prefix.kubernetes.io:1111/blah", false},
		{"prefix.*.io/foo", "prefix.kubernetes.io:1111/foo/bar", false},
		{"reg.io", "reg.io/a:v1", true},
		{"reg.io/a", "reg.io/ab/c@sha256:4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1", true},
		{"reg.io/a/", "reg.io/ab", false},
		{"docker.io", "nginx", true},
		{"docker.io/library", "nginx:1", true},
		{"docker.io/library", "me/nginx:1", false},
		{"[fd00::1]:5000", "[fd00::1]:5000/a", true},
		{"[fd00::1]:5000/b", "[fd00::1]:5000/a", false},
		{"[fd00::1]:5000", "[fd00::2]:5000/a", false},
		{"[fd00::1]", "[fd00::1]/a", true},
		{"[fd00::1]", "[fd00::1]:5000/a", false},
		{"[ab].example.com", "a.example.com/a", true},
	} {
		r := check.Value(ParseReference(c.image))(t)
		check.Equal(t, Match(c.pattern, r), c.want, "%s matches %s", c.pattern, c.image)
	}
}

// TestHash: hashes are those of a kubelet, whose records a node may have.
func TestHash(t *testing.T) {
	for _, c := range []struct {
		credential Credential
		json       string
	}{
		{Credential{Username: "u", Password: "p"}, `{"username":"u","password":"p"}`},
		{Credential{"u", "a<b>&", "e"}, `{"username":"u","password":"a\u003cb\u003e\u0026","email":"e"}`},
	} {
		check.Equal(t, c.credential.Hash(), fmt.Sprintf("%x", sha256.Sum256([]byte(c.json))), "%v", c.credential)
	}
}
