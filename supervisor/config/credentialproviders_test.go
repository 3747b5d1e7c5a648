package config

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/spf13/pflag"

	"github.com/troupe-dev/troupe/tests/check"
)

// providers loads a configuration of credential provider plugins from files, with the programs one, two and plain, which
// can't be run.
func providers(t *testing.T, path string, files map[string]string, args ...string) (Config, error) {
	t.Helper()
	root := fstest.MapFS{
		"bin/one": {Mode: 0o755}, "bin/two": {Mode: 0o755}, "bin/plain": {Mode: 0o644},
	}
	for name, content := range files {
		root[name] = &fstest.MapFile{Data: []byte(content)}
	}
	flags := NewFlags()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.AddTo(fs)
	if err := fs.Parse(append(args, "--image-credential-provider-config="+path, "--image-credential-provider-bin-dir=/bin")); err != nil {
		t.Fatal(err)
	}
	return Load(flags, root, "/")
}

const providerHead = "apiVersion: kubelet.config.k8s.io/%s\nkind: CredentialProviderConfig\nproviders:\n"

func one(version string) string {
	return fmt.Sprintf(providerHead, version) + `- name: one
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.reg.io", "other.io:5000/team"]
  defaultCacheDuration: 10m
  args: [--flag]
  env: [{name: A, value: b=c}]
`
}

const withTokens = `  tokenAttributes:
    serviceAccountTokenAudience: reg
    cacheType: Token
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [example.com/role]
    optionalServiceAccountAnnotationKeys: [tenant]
`

func TestCredentialProviders(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		c := check.Value(providers(t, "/p.yaml", map[string]string{"p.yaml": one(version)}))(t)
		got, hash := c.CredentialProviders()
		if len(got) != 1 || fmt.Sprintf("%+v", got[0]) != fmt.Sprintf("{Name:one Images:[*.reg.io other.io:5000/team] "+
			"APIVersion:credentialprovider.kubelet.k8s.io/v1 CacheDuration:%v Args:[--flag] Env:[A=b=c] Token:<nil>}", 10*time.Minute) {
			t.Errorf("%s: %+v", version, got)
		}
		if !strings.HasPrefix(hash, "sha256:") || len(c.Warnings()) > 0 {
			t.Errorf("hash %s, warnings %v", hash, c.Warnings())
		}
	}
	c := check.Value(providers(t, "/d", map[string]string{
		"d/b.json": strings.ReplaceAll(one("v1"), "one", "two") + withTokens, "d/a.yml": one("v1"), "d/c.txt": "no", "d/sub/x.yaml": "no",
	}))(t)
	got, _ := c.CredentialProviders()
	if len(got) != 2 || got[0].Name != "one" || got[1].Name != "two" {
		t.Fatalf("a directory: %+v", got)
	}
	if tok := got[1].Token; tok == nil || fmt.Sprintf("%+v", *tok) != "{Audience:reg Required:true RequiredAnnotations:[example.com/role] OptionalAnnotations:[tenant] PerToken:true}" {
		t.Errorf("tokens: %+v", tok)
	}
}

func TestCredentialProvidersRefused(t *testing.T) {
	whole := one("v1") + withTokens
	for _, c := range []struct {
		name, file, want string
		args             []string
	}{
		{"no such kind", "kind: Pod", "kind: must be CredentialProviderConfig", nil},
		{"no such version", one("v2"), `apiVersion: "kubelet.config.k8s.io/v2": must be`, nil},
		{"not YAML", "{", "not valid YAML", nil},
		{"no providers", fmt.Sprintf(providerHead, "v1"), "providers: must have at least one provider", nil},
		{"an unknown field", one("v1") + "  wrong: 1\n", "wrong", nil},
		{"tokens in an old version", one("v1beta1") + withTokens, "tokenAttributes", nil},
		{"twice", one("v1") + strings.Join(strings.Split(one("v1"), "\n")[3:], "\n"), "providers[1].name: \"one\": is also in /p.yaml", nil},
		{"not there", strings.Replace(whole, "name: one", "name: absent", 1), "the plugin /bin/absent does not exist", nil},
		{"not executable", strings.Replace(whole, "name: one", "name: plain", 1), "the plugin /bin/plain is not an executable file", nil},
		{"a path", strings.Replace(whole, "name: one", "name: ../one", 1), "providers[0].name: \"../one\"", nil},
		{"no name", strings.Replace(whole, "name: one", "name: ''", 1), "providers[0].name: must be given", nil},
		{"another apiVersion", strings.Replace(whole, "credentialprovider.kubelet.k8s.io/v1", "v1", 1), "providers[0].apiVersion", nil},
		{"no patterns", strings.Replace(whole, `["*.reg.io", "other.io:5000/team"]`, "[]", 1), "providers[0].matchImages: must be given", nil},
		{"a bad pattern", strings.Replace(whole, "*.reg.io", "reg.io:port", 1), "providers[0].matchImages[0]", nil},
		{"no duration", strings.Replace(whole, "  defaultCacheDuration: 10m\n", "", 1), "providers[0].defaultCacheDuration: must be given", nil},
		{"a negative duration", strings.Replace(whole, "10m", "-1s", 1), "must be at least 0", nil},
		{"no audience", strings.Replace(whole, "Audience: reg", "Audience: ''", 1), "serviceAccountTokenAudience: must be given", nil},
		{"no cacheType", strings.Replace(whole, "cacheType: Token", "cacheType: Pod", 1), "tokenAttributes.cacheType", nil},
		{"no requireServiceAccount", strings.Replace(whole, "    requireServiceAccount: true\n", "", 1), "requireServiceAccount: must be given", nil},
		{"annotations of nobody", strings.Replace(whole, "requireServiceAccount: true", "requireServiceAccount: false", 1), "requiredServiceAccountAnnotationKeys: needs requireServiceAccount", nil},
		{"a bad annotation", strings.Replace(whole, "[tenant]", "['a b']", 1), "optionalServiceAccountAnnotationKeys[0]", nil},
		{"an annotation twice", strings.Replace(whole, "[tenant]", "[example.com/role]", 1), "given twice", nil},
		{"without the gate", whole, "tokenAttributes: needs feature gate KubeletServiceAccountTokenForCredentialProviders", []string{"--feature-gates=KubeletServiceAccountTokenForCredentialProviders=false"}},
	} {
		_, err := providers(t, "/p.yaml", map[string]string{"p.yaml": c.file}, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "/p.yaml") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := providers(t, "/absent", nil); err == nil || !strings.Contains(err.Error(), "--image-credential-provider-config: /absent: file does not exist") {
		t.Errorf("no file: %v", err)
	}
	if _, err := providers(t, "/d", map[string]string{"d/x": ""}); err == nil || !strings.Contains(err.Error(), "no file that ends with") {
		t.Errorf("an empty directory: %v", err)
	}
}
