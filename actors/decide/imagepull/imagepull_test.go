package imagepull

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		policy  v1.PullPolicy
		image   string
		present bool
		want    Decision
	}{
		{v1.PullAlways, "a:1", true, Pull},
		{v1.PullAlways, "a:1", false, Pull},
		{v1.PullIfNotPresent, "a:latest", true, UsePresent},
		{v1.PullIfNotPresent, "a", false, Pull},
		{v1.PullNever, "a", true, UsePresent},
		{v1.PullNever, "a", false, NeverPresent},
		{"", "a", true, Pull},
		{"", "a:latest", true, Pull},
		{"", "a:1", true, UsePresent},
		{"", "a@sha256:" + strings.Repeat("a", 64), true, UsePresent},
		{"", "a:latest@sha256:" + strings.Repeat("a", 64), true, Pull},
		{"", "a:1", false, Pull},
	} {
		if got := Decide(c.policy, c.image, c.present); got != c.want {
			t.Errorf("Decide(%q, %q, %v) = %v, want %v", c.policy, c.image, c.present, got, c.want)
		}
	}
}

func TestPullFailure(t *testing.T) {
	for _, c := range [][3]string{
		{"rpc error: code = NotFound desc = gone", ErrImagePull, "rpc error: code = NotFound desc = gone"},
		{"RegistryUnavailable", RegistryUnavailable, "image pull failed for a because the registry is unavailable"},
		{"RegistryUnavailable: 503", RegistryUnavailable, "image pull failed for a because the registry is unavailable: 503"},
		{"SignatureValidationFailed: no key", SignatureValidationFailed, "image pull failed for a because the signature validation failed: no key"},
		{"[RegistryUnavailable: 503, gone]", ErrImagePull, "[RegistryUnavailable: 503, gone]"},
		{"Source image rejected: RegistryUnavailable", ErrImagePull, "Source image rejected: RegistryUnavailable"},
	} {
		if reason, message := PullFailure("a", c[0]); reason != c[1] || message != c[2] {
			t.Errorf("%s: %s, %q", c[0], reason, message)
		}
	}
	for want, texts := range map[string][]string{"x": {"x", "x"}, "[x, y]": {"x", "y", "x"}} {
		if got := PullError(texts); got != want {
			t.Errorf("%q: %q, want %q", texts, got, want)
		}
	}
	long := make([]string, 100)
	for i := range long {
		long[i] = fmt.Sprint(i, strings.Repeat(" no", 300))
	}
	if got := PullError(long); len(got) > mostBytes+100 || !strings.HasSuffix(got, ", and 98 more]") {
		t.Errorf("%d bytes of many long texts: …%s", len(got), got[len(got)-30:])
	}
	if got := PullError([]string{strings.Repeat("x", 5000)}); len(got) != 5000 {
		t.Errorf("%d bytes of one long text", len(got))
	}
}

func TestFailures(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := DefaultBackoff()
	var f Failures
	if r, _, _ := f.Status(p, "a", t0); r != "" || !f.RetryAt(p).IsZero() {
		t.Fatal("nothing failed, and yet it waits")
	}
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		f = f.Failed(ErrImagePull, "no route", t0)
		if got := f.RetryAt(p).Sub(t0); got != want*time.Second {
			t.Errorf("after failure %d: retry in %v, want %v", i+1, got, want*time.Second)
		}
		if r, m, u := f.Status(p, "a", t0); r != ErrImagePull || m != "no route" || u != t0.Add(time.Second) {
			t.Errorf("just after failure %d: %s %q until %v", i+1, r, m, u)
		}
		r, m, u := f.Status(p, "a", t0.Add(2*time.Second))
		if r != ImagePullBackOff || m != `Back-off pulling image "a": ErrImagePull: no route` || u != f.RetryAt(p) {
			t.Errorf("while waiting %d: %s %q until %v", i+1, r, m, u)
		}
		if r, _, _ := f.Status(p, "a", f.RetryAt(p)); r != ErrImagePull {
			t.Errorf("when it is tried again %d: %s", i+1, r)
		}
	}
}

func TestPullPolicyByTag(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for image, want := range map[string]v1.PullPolicy{
		"web": v1.PullAlways, "web:latest": v1.PullAlways, "localhost:5000/web": v1.PullAlways,
		"web:1": v1.PullIfNotPresent, "web" + digest: v1.PullIfNotPresent, "web:latest" + digest: v1.PullAlways,
	} {
		if got := DefaultPolicy(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	d := "sha256:" + strings.Repeat("0a", 32)
	for in, want := range map[string]string{
		"busybox":                       "docker.io/library/busybox:latest",
		"busybox:1.36":                  "docker.io/library/busybox:1.36",
		"a/b":                           "docker.io/a/b:latest",
		"docker.io/b":                   "docker.io/library/b:latest",
		"index.docker.io/b":             "docker.io/library/b:latest",
		"localhost/b":                   "localhost/b:latest",
		"localhost:5000/b":              "localhost:5000/b:latest",
		"localhost:5000/b:5":            "localhost:5000/b:5",
		"r.example/a/b/c:v1@" + d:       "r.example/a/b/c:v1@" + d,
		"r.example/a@" + d:              "r.example/a@" + d,
		"Registry/a":                    "Registry/a:latest",
		"my_registry.corp/app:1":        "my_registry.corp/app:1",
		"127.0.0.1:5000/x__y.z---a":     "127.0.0.1:5000/x__y.z---a:latest",
		"[::1]:5000/a":                  "[::1]:5000/a:latest",
		strings.Repeat("a", 64) + ":1":  "docker.io/library/" + strings.Repeat("a", 64) + ":1",
		"[fe80::1]/a":                   "[fe80::1]/a:latest",
		"a:" + strings.Repeat("t", 128): "docker.io/library/a:" + strings.Repeat("t", 128),
	} {
		r, err := ParseReference(in)
		if err != nil || r.String() != want {
			t.Errorf("Parse(%q) = %q, %v, want %q", in, r, err, want)
		}
	}
	for _, in := range []string{
		"", ":", "a:", "a@", "a@sha256:zz", "A", "a/B", "a//b", "/a", "a/", "-a", "a_", "a..b", "a___b", "a:-x", "a b",
		"a:" + strings.Repeat("t", 129), strings.Repeat("a", 256), strings.Repeat("a", 64), "http://a/b", "r.example:x/a", "r.example:/a",
		"a@md5:" + strings.Repeat("0", 32), "a@" + strings.ToUpper(d), "[::1/a", "a@" + d + "@" + d, "é", "-r.example/a",
	} {
		if r, err := ParseReference(in); err == nil {
			t.Errorf("Parse(%q) = %q, want an error", in, r)
		}
	}
}

// FuzzParse: no name makes it panic, and what it gives is a name that means
// the same to it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a", "a:1", "localhost:5000/a/b:c@sha256:" + strings.Repeat("0", 64), "[::1]:1/a", "A/b", "a__b-c.d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseReference(s)
		if err != nil {
			return
		}
		full := r.String()
		again, err := ParseReference(full)
		if err != nil {
			t.Fatalf("%q is good, but in full, %q, it isn't: %v", s, full, err)
		}
		if again.String() != full {
			t.Fatalf("%q: %q becomes %q", s, full, again)
		}
	})
}

func TestSameImage(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		name, other string
		want        bool
	}{
		{"busybox", "docker.io/library/busybox:latest", true},
		{"reg.io/a:1", "reg.io/a:1", true},
		{"reg.io/a:1", "reg.io/a:2", false},
		{"reg.io/a:1", "reg.io/b:1", false},
		{"reg.io/a", "reg.io/a" + digest, false},
		{"reg.io/a" + digest, "reg.io/a", false},
		{"reg.io/a:1" + digest, "reg.io/a" + digest, true},
		{"Not An Image", "Not An Image", false},
	} {
		if got := SameImage(c.name, c.other); got != c.want {
			t.Errorf("%s, %s: %v", c.name, c.other, got)
		}
	}
}

// FuzzDockerConfig: whatever is in a pull secret, its logins are sorted, and each can be asked whether it fits an image.
func FuzzDockerConfig(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://a/v1/":{"auth":"dTpw"},"[1].io":{"username":"u","password":"p"},"*.b":{}}}`), "a/x", false)
	f.Add([]byte(`{"a":{"auth":"dTpw=="},"b:5000":{"email":"e"}}`), "b:5000/x", true)
	f.Fuzz(func(t *testing.T, data []byte, image string, legacy bool) {
		logins, ok := DockerConfig(data, legacy)
		if !ok && logins != nil {
			t.Error("it has logins, and can't be read")
		}
		r, err := ParseReference(image)
		if err != nil {
			return
		}
		fit := Fitting(r, logins)
		if len(fit) > len(logins) {
			t.Errorf("%d of %d logins fit", len(fit), len(logins))
		}
	})
}
