package imagepull

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pullSecret has, for each key, a user of the key's name.
func pullSecret(t *testing.T, name string, keys ...string) *v1.Secret {
	t.Helper()
	auths := map[string]login{}
	for _, k := range keys {
		auths[k] = login{Auth: base64.StdEncoding.EncodeToString([]byte(k + ":pass:word"))}
	}
	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		t.Fatal(err)
	}
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: data}}
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
		fit, broken := Credentials(c.image, []*v1.Secret{pullSecret(t, "s", c.keys...)})
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
	fit, broken := Credentials("reg.io/app", []*v1.Secret{opaque, pullSecret(t, "s", "reg.io"), bad, old, noAuth, unpadded, old})
	if want := []Credential{{"reg.io", "pass:word"}, {"u", "p"}, {"x", "y"}}; !slices.Equal(fit, want) {
		t.Errorf("got %v, want %v", fit, want)
	}
	if want := []string{"opaque", "bad", "no-auth"}; !slices.Equal(broken, want) {
		t.Errorf("broken %v, want %v", broken, want)
	}
}
