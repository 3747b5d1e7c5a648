package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

const pluginConfig = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: one
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [troupe.local/plugins/one]
  defaultCacheDuration: 1m
  env: [{name: DIR, value: %[1]s}]
- name: two
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [troupe.local/plugins/two]
  defaultCacheDuration: 1m
  env: [{name: DIR, value: %[1]s}]
  tokenAttributes:
    serviceAccountTokenAudience: plugins-two
    cacheType: Token
    requireServiceAccount: true
    optionalServiceAccountAnnotationKeys: [example.com/role]
- name: hangs
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [troupe.local/plugins/hangs]
  defaultCacheDuration: 1m
`

// providerScript answers with a user and, as password, what is in a file; it writes down that it was asked.
const providerScript = `#!/bin/sh
request=$(cat)
echo "$request" >> $DIR/%[1]s.asked
%[3]s
cat <<END
{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","cacheDuration":"%[2]s",
"auth":{"troupe.local/plugins":{"username":"%[1]s","password":"$(cat $DIR/%[1]s.password)"}}}
END
`

// TestCredentialPlugins: three registries with a plugin each. The password of the first expires; the second's is for pods
// with a service account; the third plugin hangs: the pod that needs it is told so, and others start. It ends when the
// agent is killed.
//
//tier:real
func TestCredentialPlugins(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.GoToolchain)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		check.Fatal(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	var password atomic.Value
	password.Store("hush-1")
	write("one.password", "hush-1", 0o600)
	write("two.password", "hush-two", 0o600)
	write("one", fmt.Sprintf(providerScript, "one", "2s", ""), 0o700)
	write("two", fmt.Sprintf(providerScript, "two", "0s", `case "$request" in *serviceAccountToken*) ;; *) echo "no token" >&2; exit 1;; esac`), 0o700)
	write("hangs", fmt.Sprintf("#!/bin/sh\ncd %s\nsleep 1000 &\necho $$ $! > pids.new\nmv pids.new pids\nwait\n", dir), 0o700)
	write("config.yaml", fmt.Sprintf(pluginConfig, dir), 0o600)
	one := guard(t, "plugins/one", "web", func(u, p string) bool { return u == "one" && p == password.Load() })
	two := guard(t, "plugins/two", "work", func(u, p string) bool { return u == "two" && p == "hush-two" })
	hangs := guard(t, "plugins/hangs", "web", func(string, string) bool { return false })

	b := newBed(t, "credential-plugins", func(s *setup) {
		s.agent.Flags = []string{
			"--image-credential-provider-config", filepath.Join(dir, "config.yaml"), "--image-credential-provider-bin-dir", dir,
		}
	})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "plugins-two"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}},
		{Verbs: []string{"request-serviceaccounts-token-audience"}, APIGroups: []string{""}, Resources: []string{"plugins-two"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "plugins-two"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "plugins-two"},
		Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:nodes"}},
	}
	check.Value(b.admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}))(t)
	check.Value(b.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}))(t)
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	pod := func(name, image string, args ...string) {
		b.create(t, b.pod(name, func(s *v1.PodSpec) {
			s.Containers[0].Image, s.Containers[0].ImagePullPolicy, s.Containers[0].Args = image, v1.PullAlways, args
		}))
	}
	pod("hangs", hangs)
	pod("one", one)
	pod("two", two, "sleep")
	b.awaitPod(t, "one", "is ready while a plugin hangs", ready)
	b.awaitPod(t, "two", "is ready while a plugin hangs", ready)
	if got := outcome(b.get(t, "hangs")); got != "" {
		t.Errorf("the pod whose plugin hangs is %s already: it was too late to show that others go on", got)
	}
	password.Store("hush-2")
	write("one.password", "hush-2", 0o600)
	pod("one-later", one)
	b.awaitPod(t, "one-later", "is ready with the new password", ready)
	b.awaitPod(t, "hangs", "is told why", func(p *v1.Pod) error {
		if outcome(p) != "ErrImagePull" {
			return fmt.Errorf("it waits for something else: %+v", p.Status.ContainerStatuses)
		}
		text := p.Status.ContainerStatuses[0].State.Waiting.Message
		for _, word := range []string{`credential provider plugin "hangs" failed for image "` + hangs + `"`, "no answer within 1m0s"} {
			if !strings.Contains(text, word) {
				return fmt.Errorf("it is told %s", text)
			}
		}
		return nil
	})
	asked, err := os.ReadFile(filepath.Join(dir, "two.asked"))
	if text := string(asked); err != nil || !strings.Contains(text, `"image":"troupe.local/plugins/two/app"`) {
		t.Errorf("the second plugin was asked %s, %v", text, err)
	}
	if strings.Contains(b.Log(), "hush-") {
		t.Error("the log has a password")
	}

	// The agent is killed in the middle of a plugin: the plugin ends, with what it has started.
	check.Fatal(t, os.Remove(filepath.Join(dir, "pids")))
	pod("hangs-later", hangs)
	var pids []string
	b.await(t, "the plugin hangs again", func() error {
		text, err := os.ReadFile(filepath.Join(dir, "pids"))
		pids = strings.Fields(string(text))
		return err
	})
	b.kill(t)
	b.await(t, "the plugin has ended", func() error {
		for _, pid := range pids {
			if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
				return fmt.Errorf("process %s is still there", pid)
			}
		}
		return nil
	})
}
