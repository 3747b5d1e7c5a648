package scenarios

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	api "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// pluginFor is a plugin for the images of one registry.
func pluginFor(registry string, script func(run int, q *api.CredentialProviderRequest) machine.CredentialAnswer) machine.CredentialPlugin {
	return machine.CredentialPlugin{Script: script, Provider: imagepull.Provider{
		Name: "plugin-" + registry, Images: []string{registry}, APIVersion: "credentialprovider.kubelet.k8s.io/v1", CacheDuration: 10 * time.Minute,
	}}
}

func withPlugins(of ...machine.CredentialPlugin) option {
	return func(s *setting) { s.spec.CredentialPlugins = of }
}

// gives is an answer with a password for a registry.
func gives(registry, password string) machine.CredentialAnswer {
	return machine.CredentialAnswer{Auth: map[string]api.AuthConfig{registry: {Username: "u", Password: password}}}
}

// locks has the registry want this password for an image.
func (w *world) locks(image, password string) {
	w.registry.Put(image, simcri.RegistryImage{Credential: &port.ImageAuth{Username: "u", Password: password}})
}

// waits is why the container of a pod waits.
func (c *cluster) waits(name string) (reason, message string) {
	s := c.get(name).Status.ContainerStatuses
	if len(s) == 0 || s[0].State.Waiting == nil {
		return "", ""
	}
	return s[0].State.Waiting.Reason, s[0].State.Waiting.Message
}

// TestPluginToken: a plugin is asked once while its answer counts; a token that expires before that is asked for anew
// when the answer does not count any more, and the pod starts then.
func TestPluginToken(t *testing.T) {
	t.Parallel()
	password := "first"
	w, c := newClusterNode(t, 1, withPlugins(pluginFor("a.test", func(int, *api.CredentialProviderRequest) machine.CredentialAnswer {
		answer, most := gives("a.test", password), 8*time.Minute
		answer.Key, answer.For = imagepull.CacheForRegistry, &most
		return answer
	})))
	runs := func(want int) {
		t.Helper()
		if got := w.node.Machine().Credentials.Runs("plugin-a.test"); got != want {
			w.failf("the plugin was run %d times, want %d", got, want)
		}
	}
	for _, image := range []string{"a.test/one:1", "a.test/two:1", "a.test/three:1"} {
		w.locks(image, "first")
	}
	c.kubernetes()
	c.create(aPod("one").image("a.test/one:1"))
	w.until(time.Minute, "the first", func() bool { return c.ready("one") })
	c.create(aPod("two").image("a.test/two:1"))
	w.until(time.Minute, "the second", func() bool { return c.ready("two") })
	runs(1)
	password = "second"
	w.locks("a.test/three:1", password)
	c.create(aPod("three").image("a.test/three:1"))
	w.run(time.Minute)
	if reason, message := c.waits("three"); reason != "ErrImagePull" && reason != "ImagePullBackOff" || !strings.Contains(message, "a.test/three:1") {
		w.failf("it waits for %s: %s", reason, message)
	}
	runs(1)
	w.until(15*time.Minute, "the third", func() bool { return c.ready("three") })
	runs(2)
	if !c.allReady("one", "two") {
		w.failf("others are not ready any more")
	}
}

// TestPluginHangs: only pods whose image needs a plugin that hangs wait for it, a minute, and are told why they fail.
func TestPluginHangs(t *testing.T) {
	t.Parallel()
	hangs := true
	w, c := newClusterNode(t, 1, withPlugins(
		pluginFor("hung.test", func(int, *api.CredentialProviderRequest) machine.CredentialAnswer {
			answer := gives("hung.test", "p")
			answer.Hangs = hangs
			return answer
		}),
		pluginFor("a.test", func(int, *api.CredentialProviderRequest) machine.CredentialAnswer { return gives("a.test", "p") }),
	))
	w.locks("hung.test/app:1", "p")
	w.locks("a.test/app:1", "p")
	c.kubernetes()
	c.create(aPod("needs").image("hung.test/app:1"), aPod("other").image("a.test/app:1"), aPod("none").image("free.test/app:1"))
	w.until(30*time.Second, "the others", func() bool { return c.allReady("other", "none") })
	w.run(65 * time.Second)
	reason, message := c.waits("needs")
	for _, want := range []string{`credential provider plugin "plugin-hung.test" failed`, "no answer within 1m0s", "hung.test/app"} {
		if reason != "ErrImagePull" && reason != "ImagePullBackOff" || !strings.Contains(message, want) {
			w.failf("it waits for %s: %s, without %q", reason, message, want)
		}
	}
	hangs = false
	w.until(5*time.Minute, "the pod whose plugin answers again", func() bool { return c.ready("needs") })
}

// TestPluginLies: an answer that is none is told by its plugin, not by what is in it, and a slow plugin is waited for.
func TestPluginLies(t *testing.T) {
	w, c := parallelCluster(t, 1, withPlugins(
		pluginFor("lies.test", func(int, *api.CredentialProviderRequest) machine.CredentialAnswer {
			return machine.CredentialAnswer{Raw: []byte(`{"kind":"Secret","apiVersion":"v1","password":"hunter2"}`)}
		}),
		pluginFor("fails.test", func(int, *api.CredentialProviderRequest) machine.CredentialAnswer {
			return machine.CredentialAnswer{Fails: "exit status 3"}
		}),
		pluginFor("slow.test", func(int, *api.CredentialProviderRequest) machine.CredentialAnswer {
			answer := gives("slow.test", "p")
			answer.Takes = 45 * time.Second
			return answer
		}),
	))
	c.kubernetes()
	for _, name := range []string{"lies", "fails", "slow"} {
		w.locks(name+".test/app:1", "p")
		c.create(aPod(name).image(name + ".test/app:1"))
	}
	w.until(time.Minute, "the slow one", func() bool { return c.ready("slow") })
	for name, want := range map[string]string{"lies": "its answer has apiVersion", "fails": "exit status 3"} {
		_, message := c.waits(name)
		if !strings.Contains(message, want) || !strings.Contains(message, "plugin-"+name+".test") || strings.Contains(message, "hunter2") {
			w.failf("%s waits: %s", name, message)
		}
	}
}

// TestPluginServiceAccounts: a plugin is asked with the token of the pod's service account, and an image that was pulled
// as one account is not another's, also after a restart of the agent.
func TestPluginServiceAccounts(t *testing.T) {
	t.Parallel()
	var tokens []string
	of := pluginFor("a.test", func(_ int, q *api.CredentialProviderRequest) machine.CredentialAnswer {
		tokens = append(tokens, q.ServiceAccountToken)
		if q.ServiceAccountAnnotations["a.test/role"] != "puller" {
			return machine.CredentialAnswer{}
		}
		return gives("a.test", "p")
	})
	of.Provider.Token = &imagepull.ProviderToken{Audience: "a.test", OptionalAnnotations: []string{"a.test/role"}}
	w, c := newClusterNode(t, 1, withPlugins(of), withRecords(kubelet.NeverVerifyPreloadedImages))
	const image = "a.test/app:1"
	w.locks(image, "p")
	w.rules.Entitles(func(p *v1.Pod, name string) bool { return name != image || p.Spec.ServiceAccountName == "puller" })
	c.kubernetes()
	for name, role := range map[string]string{"puller": "puller", "other": "none"} {
		c.add(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{"a.test/role": role}}})
	}
	as := func(pod, account string) *spec {
		s := aPod(pod).image(image)
		s.Spec.ServiceAccountName = account
		return s
	}
	c.create(as("first", "puller"))
	w.until(time.Minute, "the first", func() bool { return c.ready("first") })
	c.create(as("thief", "other"), as("second", "puller"))
	w.until(time.Minute, "one as the same account", func() bool { return c.ready("second") })
	w.run(time.Minute)
	w.restart()
	w.run(time.Minute)
	if w.stolen() {
		w.failf("a pod with another account has a container")
	}
	for _, token := range tokens {
		if token == "" {
			w.failf("the plugin was run without a token")
		}
	}
}
