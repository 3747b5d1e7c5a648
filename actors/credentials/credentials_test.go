package credentials_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// rig is the actor alone on a virtual clock. The rig plays the plugins, which answer when the test says so, and the disk
// and the apiserver, which answer soon.
type rig struct {
	*actortest.Rig
	actor  *actortest.Actor[credentials.Message]
	runs   *actortest.Calls
	others *actortest.Answers
	// issuer are the answers of CreateToken.
	issuer *actortest.Answers
	// answer is what the plugins write.
	answer func(plugin string, r api.CredentialProviderRequest) string
	// config is the docker configuration, reads how often it was read.
	config string
	reads  int
	// account is the service account, if there is one; tokens how many were issued.
	account *v1.ServiceAccount
	tokens  int
}

func newRig(t *testing.T, of ...imagepull.Provider) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t), answer: func(plugin string, q api.CredentialProviderRequest) string {
		return answer("Image", time.Minute, "*.reg.io", plugin, "for "+q.Image)
	}}
	r.runs, r.others, r.issuer = r.NewCalls("plugin"), r.NewAnswers(), r.NewAnswers()
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[credentials.Message]{
		Name: "credentials", Policy: kernel.ForPods, MailboxLimit: 64, Runner: r.Runner(credentials.Pools()...),
		New: credentials.New(&credentials.Deps{Providers: of, Plugins: r, API: r, Restarted: func() { r.Say("restarted") }}),
	})
	return r
}

func provider(name string, images ...string) imagepull.Provider {
	return imagepull.Provider{Name: name, Images: images, APIVersion: api.SchemeGroupVersion.String(), CacheDuration: time.Hour}
}

// answer is what a plugin writes: one login.
func answer(key string, d time.Duration, registry, user, password string) string {
	data, err := json.Marshal(api.CredentialProviderResponse{
		TypeMeta:     metav1.TypeMeta{APIVersion: api.SchemeGroupVersion.String(), Kind: "CredentialProviderResponse"},
		CacheKeyType: api.PluginCacheKeyType(key), CacheDuration: &metav1.Duration{Duration: d},
		Auth: map[string]api.AuthConfig{registry: {Username: user, Password: password}},
	})
	if err != nil {
		panic(err)
	}
	return string(data)
}

// RunPlugin implements port.CredentialPlugins.
func (r *rig) RunPlugin(ctx context.Context, p *imagepull.Provider, request []byte, done func([]byte, error)) {
	var q api.CredentialProviderRequest
	r.Must(json.Unmarshal(request, &q))
	text := p.Name + " " + q.Image
	if q.ServiceAccountToken != "" {
		text += fmt.Sprintf(" with %s %v", q.ServiceAccountToken, q.ServiceAccountAnnotations)
	}
	r.runs.Called(ctx, text, func(err error) { done([]byte(r.answer(p.Name, q)), err) })
}

// DockerConfig implements port.CredentialPlugins.
func (r *rig) DockerConfig(_ context.Context, done func([]byte, bool, error)) {
	r.reads++
	r.others.Give(func() {
		if r.config == "" {
			done(nil, false, nil)
			return
		}
		done([]byte(r.config), false, nil)
	})
}

// Get implements credentials.API.
func (r *rig) Get(_ context.Context, k port.APIKey, done func(port.APIObject, error)) {
	r.others.Give(func() {
		if r.account == nil || k.Kind != port.ServiceAccountKind || k.Name != r.account.Name {
			done(nil, &port.Error{Kind: port.NotFound, Verb: "Get", Object: k.Name})
			return
		}
		done(r.account, nil)
	})
}

// CreateToken implements credentials.API.
func (r *rig) CreateToken(_ context.Context, namespace, name string, spec authenticationv1.TokenRequestSpec, done func(authenticationv1.TokenRequestStatus, error)) {
	r.issuer.Give(func() {
		r.tokens++
		done(authenticationv1.TokenRequestStatus{
			Token:               fmt.Sprintf("token-%d-%s-%s-%s-%s", r.tokens, namespace, name, spec.Audiences[0], spec.BoundObjectRef.Name),
			ExpirationTimestamp: metav1.NewTime(r.Now().Add(time.Hour)),
		}, nil)
	})
}

// ask looks up an image for a pod, and writes down the answer.
func (r *rig) ask(image string, of *v1.Pod) {
	who := "nobody"
	if of != nil {
		who = of.Name
	}
	r.actor.Tell(credentials.Lookup{Image: image, Pod: of, Reply: func(f credentials.Found) {
		var offers []string
		for _, o := range f.Offers {
			text := o.Username + ":" + o.Password
			if o.Source != (imagepull.Source{}) {
				text += fmt.Sprintf(" of %s/%s %s", o.Source.Namespace, o.Source.Name, o.Source.UID)
			}
			offers = append(offers, text)
		}
		r.Say("%s gets [%s] %s", who, strings.Join(offers, ", "), strings.Join(f.Failures, "; "))
	}})
	r.Advance(5 * time.Millisecond)
}

func pod(name, account string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{ServiceAccountName: account}}
}

// oneOf is one of several pods of a name.
func oneOf(name string, i int) *v1.Pod {
	p := pod(name, "")
	p.UID = types.UID(fmt.Sprint(name, i))
	return p
}

// TestShareOfAPod: of the processes of a plugin that hangs, one pod has a few, and the next one is for a pod that has
// none.
func TestShareOfAPod(t *testing.T) {
	r := newRig(t, provider("one", "*.reg.io"))
	began := func(of string) int {
		n := strings.Count(strings.Join(r.Lines(), " "), "plugin: one "+of)
		r.Forget()
		return n
	}
	for i := range 10 * credentials.Runs {
		r.ask(fmt.Sprintf("g%d.reg.io/app", i), pod("greedy", ""))
	}
	share := began("g")
	check.AtMost(t, share, credentials.Runs/2, "processes for one pod")
	r.ask("g100.reg.io/app", pod("alike", ""))
	check.Equal(t, began("g100"), 1, "processes for what the pod with many waits for, too")
	share++
	r.ask("plain.reg.io/app", pod("plain", ""))
	check.Equal(t, began("plain"), 1, "processes for a pod that has none")
	for i := range credentials.Runs {
		r.ask(fmt.Sprintf("h%d.reg.io/app", i), oneOf("h", i))
	}
	check.Equal(t, began("h"), credentials.Runs-share-1, "processes for other pods")
	r.ask("late.reg.io/app", pod("late", ""))
	r.runs.Answer(nil, "one plain.reg.io/app", "one g0.reg.io/app", "one g1.reg.io/app")
	r.Forget()
	r.Advance(credentials.PluginDeadline)
	check.Equal(t, began("late"), 1, "processes for a pod that came when all had been begun")
}

// TestOrder: what the node has comes first, then what plugins have, the longest path first, whose ever it is.
func TestOrder(t *testing.T) {
	r := newRig(t, provider("one", "a.reg.io"), provider("two", "*.reg.io"), provider("three", "other.io"))
	r.config = `{"auths":{"a.reg.io":{"username":"node","password":"p"},"else.io":{"username":"else"}}}`
	r.answer = func(plugin string, _ api.CredentialProviderRequest) string {
		return answer("Image", 0, map[string]string{"one": "a.reg.io", "two": "a.reg.io/team"}[plugin], plugin, "p")
	}
	r.ask("a.reg.io/team/app:1", pod("a", ""))
	r.runs.Answer(nil, "two a.reg.io/team/app", "one a.reg.io/team/app")
	r.WantByListener("both are asked, at once", "plugin: one a.reg.io/team/app", "plugin: two a.reg.io/team/app",
		"a gets [node:p, two:p, one:p] ")
	r.ask("none.io/app", nil)
	r.WantByListener("nobody has something", "nobody gets [] ")
	r.ask("Not An Image", nil)
	r.WantByListener("nor here", "nobody gets [] ")
	check.Equal(t, r.reads, 1, "the docker configuration was read %d times", r.reads)
	r.Advance(credentials.ConfigAge)
	r.config = "{"
	r.ask("a.reg.io/x", nil)
	if r.reads != 2 || r.Logged("docker configuration") != 1 {
		t.Errorf("read %d times; %s", r.reads, r.Log.String())
	}
}

// TestCacheAndFlight: who asks the same at the same time is answered by one run, and later from what is kept while it counts.
func TestCacheAndFlight(t *testing.T) {
	r := newRig(t, provider("one", "*.reg.io"))
	for _, name := range []string{"a", "b"} {
		r.ask("a.reg.io/app:1", pod(name, ""))
	}
	r.ask("a.reg.io/app:2", pod("c", ""))
	r.WantByListener("one run", "plugin: one a.reg.io/app")
	r.runs.Answer(nil, "one a.reg.io/app")
	r.WantByListener("all have it", "a gets [one:for a.reg.io/app] ", "b gets [one:for a.reg.io/app] ", "c gets [one:for a.reg.io/app] ")
	r.Advance(50 * time.Second)
	r.ask("a.reg.io/app", pod("d", ""))
	r.WantByListener("kept", "d gets [one:for a.reg.io/app] ")
	r.Advance(10 * time.Second)
	r.ask("a.reg.io/app", pod("e", ""))
	r.WantByListener("expired", "plugin: one a.reg.io/app")
	r.answer = func(string, api.CredentialProviderRequest) string {
		return answer("Global", time.Hour, "*.reg.io", "all", "p")
	}
	for i := range credentials.Runs + 1 {
		r.ask(fmt.Sprintf("b.reg.io/%d", i), oneOf("f", i))
	}
	if n := strings.Count(strings.Join(r.Lines(), " "), "plugin: one b.reg.io/"); n != credentials.Runs-1 {
		t.Errorf("%d more run at once", n)
	}
	r.Forget()
	r.runs.Answer(nil, "one a.reg.io/app")
	r.WantByListener("what waited has the answer that counts for all", "e gets [all:p] ", "f gets [all:p] ", "f gets [all:p] ")
}

// TestHang: a plugin that hangs holds up what it is asked for, and nothing else. Then its failure is told, and it is asked again.
func TestHang(t *testing.T) {
	r := newRig(t, provider("slow", "slow.reg.io"), provider("fast", "fast.reg.io"))
	for i := range credentials.Runs + 2 {
		r.ask(fmt.Sprintf("slow.reg.io/%d", i), oneOf("s", i))
	}
	r.ask("fast.reg.io/app", pod("f", ""))
	r.runs.Answer(nil, "fast fast.reg.io/app")
	said := r.Since()
	check.AtMost(t, said, time.Second, "the other plugin was held up for")
	r.Advance(credentials.PluginDeadline)
	if n := r.Logged("credential provider plugin failed", "slow.reg.io/0"); n != 1 {
		t.Errorf("logged %d times: %s", n, r.Log.String())
	}
	for i := credentials.Runs; i < credentials.Runs+2; i++ { // those that waited run now
		r.runs.Answer(&port.Error{Kind: port.Other, Verb: "Run", Object: "slow", Detail: "exit status 3"}, fmt.Sprintf("slow slow.reg.io/%d", i))
	}
	text := strings.Join(r.Lines(), "\n")
	for _, want := range []string{
		`s gets [] credential provider plugin "slow" failed for image "slow.reg.io/0": no answer within 1m10s`,
		fmt.Sprintf(`s gets [] credential provider plugin "slow" failed for image "slow.reg.io/%d": exit status 3`, credentials.Runs+1),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not said: %s\nbut %s", want, text)
		}
	}
	r.answer = func(string, api.CredentialProviderRequest) string { return "secret garbage" }
	r.ask("slow.reg.io/0", pod("s", ""))
	r.runs.Answer(nil, "slow slow.reg.io/0", "slow slow.reg.io/0") // the first is that of the run that was given up
	if text := strings.Join(r.Lines(), "\n"); !strings.Contains(text, `failed for image "slow.reg.io/0": its answer on stdout is not JSON`) || strings.Contains(text+r.Log.String(), "secret") {
		t.Errorf("garbage: %s", text)
	}
}

// TestTokens: which pods a plugin with tokens is asked for, with what, and whose its answers are.
func TestTokens(t *testing.T) {
	p := provider("sa", "*.reg.io")
	p.Token = &imagepull.ProviderToken{Audience: "reg", Required: true, RequiredAnnotations: []string{"role"}, OptionalAnnotations: []string{"tenant"}}
	r := newRig(t, p)
	r.ask("a.reg.io/app", pod("static", ""))
	r.WantByListener("without an account it is not asked", "static gets [] ")
	r.ask("a.reg.io/app", pod("lost", "robot"))
	r.WantByListener("no such account", `lost gets [] credential provider plugin "sa" failed for image "a.reg.io/app": cannot get the service account of the pod: Get robot: not found`)
	r.account = &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "robot", UID: "u1"}}
	r.ask("a.reg.io/app", pod("not-yet", "robot"))
	r.WantByListener("it did not opt in", "not-yet gets [] ")
	r.account.Annotations = map[string]string{"role": "r", "other": "o"}
	r.ask("a.reg.io/app", pod("a", "robot"))
	first := "sa a.reg.io/app with token-1-shop-robot-reg-a map[role:r]"
	r.WantByListener("with a token of the pod", "plugin: "+first)
	r.runs.Answer(nil, first)
	r.WantByListener("it is the account's", "a gets [sa:for a.reg.io/app of shop/robot u1] ")
	r.ask("a.reg.io/app", pod("b", "robot"))
	r.WantByListener("and counts for its other pods", "b gets [sa:for a.reg.io/app of shop/robot u1] ")
	r.Advance(2 * time.Minute)
	r.ask("a.reg.io/app", pod("a", "robot"))
	r.WantByListener("the token is kept", "plugin: "+first)
	r.answer = func(_ string, q api.CredentialProviderRequest) string {
		return answer("Image", time.Minute, "*.reg.io", "echo", q.ServiceAccountToken)
	}
	r.runs.Answer(nil, first)
	check.Has(t, strings.Join(r.Lines(), "\n"), "needs tokenAttributes.cacheType Token", "an echo")
	if strings.Contains(r.Log.String(), "token-1") {
		t.Errorf("a token is logged: %s", r.Log.String())
	}
	r.Forget()
	r.account = r.account.DeepCopy()
	r.account.UID = "u2"
	r.ask("a.reg.io/app", pod("a", "robot"))
	r.WantByListener("another account of that name", "plugin: sa a.reg.io/app with token-3-shop-robot-reg-a map[role:r]")
}

// TestWithoutAccount: a plugin that does not require an account is asked without one, and the answer is everybody's.
func TestWithoutAccount(t *testing.T) {
	p := provider("sa", "*.reg.io")
	p.Token = &imagepull.ProviderToken{Audience: "reg"}
	r := newRig(t, p)
	r.ask("a.reg.io/app", pod("static", ""))
	r.runs.Answer(nil, "sa a.reg.io/app")
	r.WantByListener("the node's", "plugin: sa a.reg.io/app", "static gets [sa:for a.reg.io/app] ")
	if slices.Contains([]int{1, 2}, r.tokens) {
		t.Error("a token was asked for")
	}
}

// tokenRig has plugins of which the first is asked with a token, and an apiserver that keeps the tokens back.
func tokenRig(t *testing.T, others ...imagepull.Provider) *rig {
	t.Helper()
	p := provider("sa", "*.reg.io")
	p.Token = &imagepull.ProviderToken{Audience: "reg", Required: true}
	r := newRig(t, append([]imagepull.Provider{p}, others...)...)
	r.account = &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "robot", UID: "u1"}}
	r.issuer.Silent = true
	return r
}

// TestLateToken: a token that comes after its deadline changes nothing, and the ask is answered once.
func TestLateToken(t *testing.T) {
	r := tokenRig(t, provider("slow", "*.reg.io"))
	r.ask("a.reg.io/app", pod("a", "robot"))
	r.WantByListener("one plugin is asked", "plugin: slow a.reg.io/app")
	r.Advance(39 * time.Second)
	r.WantByListener("the client of the apiserver may take 35 s")
	r.Advance(2 * time.Second)
	r.issuer.Release(0)
	r.Advance(time.Second)
	r.WantByListener("late")
	r.runs.Answer(nil, "slow a.reg.io/app")
	r.WantByListener("both are known", `a gets [slow:for a.reg.io/app] credential provider plugin "sa" failed for image "a.reg.io/app": `+
		"cannot get a token of the service account of the pod: CreateToken shop/robot: deadline exceeded: no answer within 40s")
	if n := r.Logged("panic"); n != 0 {
		t.Error(r.Log.String())
	}
}

// TestTokenAfterRestart: a token that an earlier incarnation asked for is not given to another pod.
func TestTokenAfterRestart(t *testing.T) {
	r := tokenRig(t)
	r.ask("a.reg.io/app", pod("a", "robot"))
	r.actor.Crash()
	r.ask("a.reg.io/app", pod("lost", "robot"))
	r.Advance(time.Second)
	r.WantByListener("images is told", "restarted")
	r.ask("a.reg.io/app", pod("b", "robot"))
	r.issuer.Release(0)
	r.Advance(time.Second)
	r.WantByListener("that of another")
	r.issuer.Release(0)
	run := "sa a.reg.io/app with token-2-shop-robot-reg-b map[]"
	r.WantByListener("its own", "plugin: "+run)
	r.runs.Answer(nil, run)
	r.WantByListener("answered", "b gets [sa:for a.reg.io/app of shop/robot u1] ")
}

// TestLateRun: what a plugin of an earlier incarnation writes is not the answer to a newer run.
func TestLateRun(t *testing.T) {
	r := newRig(t, provider("one", "*.reg.io"))
	r.ask("a.reg.io/app", pod("a", ""))
	r.actor.Crash()
	r.ask("a.reg.io/app", pod("lost", ""))
	r.Advance(time.Second)
	r.ask("a.reg.io/app", pod("b", ""))
	r.Forget()
	r.runs.Answer(nil, "one a.reg.io/app")
	r.WantByListener("the newer runs when the older has ended", "plugin: one a.reg.io/app")
	r.runs.Answer(nil, "one a.reg.io/app")
	r.WantByListener("answered", "b gets [one:for a.reg.io/app] ")
}

// TestBoot: a node that boots with many pods has all credentials before those who wait give up.
func TestBoot(t *testing.T) {
	const pods, each = 110, 8 * time.Second
	r := newRig(t, provider("one", "*.reg.io"))
	for i := range pods {
		r.ask(fmt.Sprintf("a.reg.io/%d", i), oneOf("p", i))
	}
	for r.Since() < 2*time.Minute {
		lines := r.Lines()
		r.Forget()
		r.Advance(each)
		for _, line := range lines {
			if run, is := strings.CutPrefix(line, "plugin: "); is {
				r.runs.Answer(nil, run)
			} else {
				r.Say("%s", line)
			}
		}
	}
	n := 0
	for _, line := range r.Lines() {
		if strings.HasPrefix(line, "p gets [one:") {
			n++
		}
	}
	if n != pods {
		t.Errorf("%d of %d have credentials after %v", n, pods, r.Since())
	}
}

// TestLeft: no plugin runs for those who do not wait any more.
func TestLeft(t *testing.T) {
	r := newRig(t, provider("one", "*.reg.io"), provider("two", "*.reg.io"))
	for i := range credentials.Runs {
		r.ask(fmt.Sprintf("a.reg.io/%d", i), oneOf("first", i))
	}
	gone := false
	ask := func(image string) {
		r.actor.Tell(credentials.Lookup{
			Image: image, Reply: func(credentials.Found) { r.Say("gone gets it") }, Left: func() bool { return gone },
		})
	}
	ask("a.reg.io/gone")
	ask("a.reg.io/shared")
	r.ask("a.reg.io/shared", pod("stays", ""))
	r.Forget()
	gone = true
	ask("a.reg.io/late")
	r.runs.Answer(nil, "one a.reg.io/0", "two a.reg.io/0")
	r.Keep("plugin", "gone")
	r.WantByListener("only for the one that waits", "plugin: one a.reg.io/shared", "plugin: two a.reg.io/shared")
	r.runs.Answer(nil, "one a.reg.io/shared", "two a.reg.io/shared")
	r.Keep("stays", "gone")
	r.WantByListener("and it has it", "stays gets [one:for a.reg.io/shared, two:for a.reg.io/shared] ")
}

// TestManyCredentials: of those that fit an image, the node may have thousands, and each plugin a thousand.
func TestManyCredentials(t *testing.T) {
	linear.Held(t, 250, func(n int) func() {
		logins := func(of string) map[string]api.AuthConfig {
			out := map[string]api.AuthConfig{}
			for i := range n {
				out[fmt.Sprintf("[a%d].reg.io", i)] = api.AuthConfig{Username: fmt.Sprint(of, i), Password: "p"}
			}
			return out
		}
		r := newRig(t, provider("one", "*.reg.io"))
		r.config = string(check.Value(json.Marshal(map[string]any{"auths": logins("node")}))(t))
		said := string(check.Value(json.Marshal(api.CredentialProviderResponse{
			TypeMeta:     metav1.TypeMeta{APIVersion: api.SchemeGroupVersion.String(), Kind: "CredentialProviderResponse"},
			CacheKeyType: api.ImagePluginCacheKeyType, Auth: logins("plugin"),
		}))(t))
		r.answer = func(string, api.CredentialProviderRequest) string { return said }
		return func() {
			r.ask("a.reg.io/app", pod("a", ""))
			r.runs.Answer(nil, "one a.reg.io/app")
			check.Equal(t, strings.Count(strings.Join(r.Lines(), " "), ":p"), 2*n, "credentials")
		}
	})
}
