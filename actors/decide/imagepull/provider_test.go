package imagepull

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

const providerVersion = "credentialprovider.kubelet.k8s.io/v1"

func plugin() *Provider {
	return &Provider{Name: "ecr", Images: []string{"*.reg.io", "other.io/team"}, APIVersion: providerVersion, CacheDuration: time.Minute}
}

func ref(t *testing.T, image string) Reference {
	t.Helper()
	return check.Value(ParseReference(image))(t)
}

func TestAsks(t *testing.T) {
	for image, want := range map[string]bool{
		"a.reg.io/x:1": true, "reg.io/x": false, "other.io/team/x": true, "other.io/x": false, "x": false,
	} {
		check.Equal(t, plugin().Asks(ref(t, image)), want, "%s", image)
	}
}

func TestRequest(t *testing.T) {
	p := plugin()
	if got, want := string(p.Request("a.reg.io/x", "", nil)),
		`{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"a.reg.io/x"}`; got != want {
		t.Errorf("got %s", got)
	}
	var got map[string]any
	if err := json.Unmarshal(p.Request("x", "t", map[string]string{"k": "v"}), &got); err != nil || got["serviceAccountToken"] != "t" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestRead: what can't be used is refused, in words that have nothing of what the plugin wrote but its kind.
func TestRead(t *testing.T) {
	answer := func(rest string) string {
		return `{"kind":"CredentialProviderResponse","apiVersion":"` + providerVersion + `",` + rest + `}`
	}
	var many []string
	for i := range maxLogins + 1 {
		many = append(many, fmt.Sprintf(`"r%d.io":{"username":"u","password":"secret"}`, i))
	}
	for _, c := range []struct {
		name, data string
		want       Answer
		err        string
	}{
		{"all", answer(`"cacheKeyType":"Registry","cacheDuration":"5m","auth":{"b.io":{"username":"u","password":"p"},"a.io":{"username":"v","password":"q"}}`),
			Answer{Key: CacheForRegistry, For: 5 * time.Minute, Logins: []Login{
				{Registry: "a.io", Credential: Credential{Username: "v", Password: "q"}},
				{Registry: "b.io", Credential: Credential{Username: "u", Password: "p"}},
			}}, ""},
		{"no credentials", answer(`"cacheKeyType":"Image"`), Answer{Key: CacheForImage, For: time.Minute}, ""},
		{"not kept", answer(`"cacheKeyType":"Global","cacheDuration":"0s"`), Answer{Key: CacheForAll}, ""},
		{"in the past", answer(`"cacheKeyType":"Global","cacheDuration":"-5s"`), Answer{Key: CacheForAll}, ""},
		{"for ever", answer(`"cacheKeyType":"Global","cacheDuration":"2562047h"`), Answer{Key: CacheForAll, For: maxKeep}, ""},
		{"nothing", "", Answer{}, "not JSON"},
		{"garbage", "\x00secret", Answer{}, "not JSON"},
		{"a list", "[]", Answer{}, "not JSON"},
		{"another kind", `{"kind":"Pod","apiVersion":"` + providerVersion + `"}`, Answer{}, `kind "Pod"`},
		{"another version", `{"kind":"CredentialProviderResponse","apiVersion":"v1"}`, Answer{}, `apiVersion "v1"`},
		{"no cacheKeyType", answer(`"auth":{}`), Answer{}, `cacheKeyType ""`},
		{"another cacheKeyType", answer(`"cacheKeyType":"image"`), Answer{}, `cacheKeyType "image"`},
		{"unknown fields", answer(`"cacheKeyType":"Image","secret":1`), Answer{}, "not a CredentialProviderResponse"},
		{"another shape", answer(`"cacheKeyType":"Image","auth":["secret"]`), Answer{}, "not a CredentialProviderResponse"},
		{"no duration", answer(`"cacheKeyType":"Image","cacheDuration":"secret"`), Answer{}, "not a CredentialProviderResponse"},
		{"two answers", answer(`"cacheKeyType":"Image"`) + "{}", Answer{}, "not JSON"},
		{"too many", answer(`"cacheKeyType":"Image","auth":{` + strings.Join(many, ",") + `}`), Answer{}, "1001 registries"},
	} {
		got, err := plugin().Read([]byte(c.data), "")
		switch {
		case c.err == "" && err != nil, c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v", c.name, err)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: tells a secret: %v", c.name, err)
		case got.Key != c.want.Key || got.For != c.want.For || !slices.Equal(got.Logins, c.want.Logins):
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestEcho: a token that is given back as a password is kept for that token only.
func TestEcho(t *testing.T) {
	data := []byte(`{"kind":"CredentialProviderResponse","apiVersion":"` + providerVersion + `","cacheKeyType":"Image","auth":{"a.io":{"username":"u","password":"tok"}}}`)
	for _, c := range []struct {
		token *ProviderToken
		given string
		fine  bool
	}{{nil, "", true}, {&ProviderToken{}, "tok", false}, {&ProviderToken{}, "other", true}, {&ProviderToken{PerToken: true}, "tok", true}} {
		p := plugin()
		p.Token = c.token
		if _, err := p.Read(data, c.given); (err == nil) != c.fine {
			t.Errorf("%+v given %q: %v", c.token, c.given, err)
		}
	}
}

func TestAnnotations(t *testing.T) {
	tok := &ProviderToken{RequiredAnnotations: []string{"a"}, OptionalAnnotations: []string{"b", "c"}}
	got, missing := tok.Annotations(map[string]string{"a": "1", "b": "2", "d": "3"})
	if missing != "" || !maps.Equal(got, map[string]string{"a": "1", "b": "2"}) {
		t.Errorf("%v, %q", got, missing)
	}
	if _, missing = tok.Annotations(map[string]string{"b": "2"}); missing != "a" {
		t.Errorf("missing %q", missing)
	}
}

// TestCache: for which images and accounts an answer counts, and for how long.
func TestCache(t *testing.T) {
	now := time.Unix(1e9, 0)
	robot := &ServiceAccount{UID: "u1", Namespace: "shop", Name: "robot", Annotations: map[string]string{"a": "1"}, Token: "t1"}
	for _, c := range []struct {
		name    string
		token   *ProviderToken
		key     CacheKeyType
		of      *ServiceAccount
		image   string
		account *ServiceAccount
		after   time.Duration
		want    bool
	}{
		{"the image", nil, CacheForImage, &ServiceAccount{}, "a.reg.io/x:2", &ServiceAccount{}, 0, true},
		{"another image", nil, CacheForImage, &ServiceAccount{}, "a.reg.io/y", &ServiceAccount{}, 0, false},
		{"the registry", nil, CacheForRegistry, &ServiceAccount{}, "a.reg.io/y", &ServiceAccount{}, 0, true},
		{"another registry", nil, CacheForRegistry, &ServiceAccount{}, "b.reg.io/x", &ServiceAccount{}, 0, false},
		{"all", nil, CacheForAll, &ServiceAccount{}, "b.reg.io/y", &ServiceAccount{}, 0, true},
		{"almost too late", nil, CacheForAll, &ServiceAccount{}, "b.reg.io/y", &ServiceAccount{}, time.Minute - 1, true},
		{"too late", nil, CacheForAll, &ServiceAccount{}, "b.reg.io/y", &ServiceAccount{}, time.Minute, false},
		{"accounts don't matter to a plugin without tokens", nil, CacheForAll, robot, "a.reg.io/x", &ServiceAccount{}, 0, true},
		{"the account", &ProviderToken{}, CacheForAll, robot, "a.reg.io/x", &ServiceAccount{UID: "u1", Namespace: "shop", Name: "robot", Annotations: map[string]string{"a": "1"}, Token: "t2"}, 0, true},
		{"made again", &ProviderToken{}, CacheForAll, robot, "a.reg.io/x", &ServiceAccount{UID: "u2", Namespace: "shop", Name: "robot", Annotations: map[string]string{"a": "1"}}, 0, false},
		{"of another namespace", &ProviderToken{}, CacheForAll, robot, "a.reg.io/x", &ServiceAccount{UID: "u1", Namespace: "bank", Name: "robot", Annotations: map[string]string{"a": "1"}}, 0, false},
		{"another annotation", &ProviderToken{}, CacheForAll, robot, "a.reg.io/x", &ServiceAccount{UID: "u1", Namespace: "shop", Name: "robot", Annotations: map[string]string{"a": "2"}}, 0, false},
		{"none", &ProviderToken{}, CacheForAll, robot, "a.reg.io/x", &ServiceAccount{}, 0, false},
		{"the token", &ProviderToken{PerToken: true}, CacheForAll, robot, "a.reg.io/x", robot, 0, true},
		{"another token", &ProviderToken{PerToken: true}, CacheForAll, robot, "a.reg.io/x", &ServiceAccount{UID: "u1", Namespace: "shop", Name: "robot", Annotations: map[string]string{"a": "1"}, Token: "t2"}, 0, false},
	} {
		p, cache := plugin(), CredentialCache{}
		p.Token = c.token
		cache.Put(p, ref(t, "a.reg.io/x:1"), c.of, Answer{Key: c.key, For: time.Minute}, now)
		if _, got := cache.Get(p, ref(t, c.image), c.account, now.Add(c.after)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestCacheIsBounded: what counts no more goes first, then what counts for the shortest time.
func TestCacheIsBounded(t *testing.T) {
	now, p, c := time.Unix(1e9, 0), plugin(), CredentialCache{}
	put := func(image string, d time.Duration) {
		c.Put(p, ref(t, image), &ServiceAccount{}, Answer{Key: CacheForImage, For: d}, now)
	}
	has := func(image string) bool { _, ok := c.Get(p, ref(t, image), &ServiceAccount{}, now); return ok }
	put("a.reg.io/never", 0)
	put("a.reg.io/short", time.Second)
	for i := range maxEntries - 1 {
		put(fmt.Sprintf("a.reg.io/x%d", i), time.Hour)
	}
	put("a.reg.io/more", time.Hour)
	if c.Len() != maxEntries || has("a.reg.io/short") || has("a.reg.io/never") || !has("a.reg.io/more") {
		t.Errorf("%d are kept", c.Len())
	}
	now = now.Add(2 * time.Hour)
	put("a.reg.io/last", time.Hour)
	check.Equal(t, c.Len(), 1, "%d are kept after all but one ended", c.Len())
}

// TestFlight: who asks the same at the same time is answered once; never with what another account was given.
func TestFlight(t *testing.T) {
	p := plugin()
	p.Token = &ProviderToken{}
	seen := map[string]int{}
	for i, a := range []*ServiceAccount{
		{}, {UID: "u", Namespace: "a", Name: "b", Token: "1"}, {UID: "u", Namespace: "a", Name: "b", Token: "2"},
		{UID: "u", Namespace: "ab", Name: "", Token: "1"}, {UID: "u", Namespace: "a", Name: "b", Token: "1", Annotations: map[string]string{"x": "1"}},
	} {
		for _, image := range []string{"r.io/x", "r.io/y"} {
			k := p.Flight(image, a)
			if j, ok := seen[k]; ok && !a.None() {
				t.Errorf("%d and %d are the same for %s", i, j, image)
			}
			if strings.Contains(k, "tok") {
				t.Error("a token is in the key")
			}
			seen[k] = i
		}
	}
	if p.Flight("x", &ServiceAccount{}) != plugin().Flight("x", &ServiceAccount{Name: "b"}) {
		t.Error("an account matters to a plugin without tokens")
	}
}

// FuzzRead: whatever a plugin writes, there is an answer within its limits, or an error that says nothing of what it wrote
// but its version, kind and the type of its key.
func FuzzRead(f *testing.F) {
	const head = `{"kind":"CredentialProviderResponse","apiVersion":"` + providerVersion + `",`
	f.Add([]byte(head + `"cacheKeyType":"Image","cacheDuration":"5s","auth":{"r.io":{"username":"u","password":"secret"}}}`))
	f.Add([]byte(head + `"cacheKeyType":"Global","cacheDuration":"-9223372036854775808ns","auth":null}`))
	f.Add([]byte(head + `"cacheKeyType":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := plugin()
		p.Token = &ProviderToken{}
		a, err := p.Read(data, "secret")
		if err != nil {
			var named struct{ APIVersion, Kind, CacheKeyType string }
			_ = json.Unmarshal(data, &named) // what can be read of it
			may := strings.Contains(fmt.Sprint(named), "secret")
			if !may && strings.Contains(err.Error(), "secret") || len(err.Error()) > 1000 {
				t.Errorf("refused with %q", err)
			}
			return
		}
		if a.For < 0 || a.For > maxKeep || len(a.Logins) > maxLogins {
			t.Errorf("%+v", a)
		}
		r := ref(t, "a.reg.io/x:1")
		for _, l := range a.Logins {
			Match(l.Registry, r)
		}
		var c CredentialCache
		now := time.Unix(1893456000, 0)
		c.Put(p, r, &ServiceAccount{}, a, now)
		c.Get(p, r, &ServiceAccount{}, now)
	})
}
