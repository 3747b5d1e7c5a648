package scenarios

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/podtest"
)

// made keeps what containers are made with, and passes all on.
type made struct {
	port.Runtime
	calls []port.CreateContainer
}

func (m *made) CreateContainer(ctx context.Context, r port.CreateContainer, done func(string, error)) {
	m.calls = append(m.calls, r)
	m.Runtime.CreateContainer(ctx, r, done)
}

// value is what the newest container of a name has of a ConfigMap's key k.
func (m *made) value(t *testing.T, container, configMap string) string {
	t.Helper()
	for _, r := range slices.Backward(m.calls) {
		if r.Container.Name == container {
			v, ok := r.Env.Lookup("V_" + configMap)
			if !ok {
				t.Fatalf("container %s was made without a value of ConfigMap %s", container, configMap)
			}
			return v
		}
	}
	t.Fatalf("no container %s was made", container)
	return ""
}

func withMade(m *made) option {
	return func(s *setting) {
		s.w.wrap = func(r port.Runtime) port.Runtime { m.Runtime = r; return m }
	}
}

func (s *spec) fromMap(name string) *spec {
	c := &s.Spec.Containers[len(s.Spec.Containers)-1]
	c.Env = append(c.Env, v1.EnvVar{Name: "V_" + name, ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: "k",
	}}})
	return s
}

func (s *spec) fromSecret(name string) *spec {
	c := &s.Spec.Containers[len(s.Spec.Containers)-1]
	c.EnvFrom = append(c.EnvFrom, v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}})
	return s
}

func (c *cluster) add(o port.APIObject) {
	c.w.t.Helper()
	if _, err := c.api.Create(o); err != nil {
		c.w.failf("%v", err)
	}
}

func (c *cluster) configMap(name, value string) {
	c.w.t.Helper()
	c.add(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"k": value}})
}

func (c *cluster) setConfigMap(name, value string) {
	c.w.t.Helper()
	o, err := c.api.Get(port.APIKey{Kind: port.ConfigMapKind, Namespace: "default", Name: name})
	if err != nil {
		c.w.failf("%v", err)
	}
	to := o.(*v1.ConfigMap).DeepCopy()
	to.Data["k"] = value
	if _, err := c.api.Update(to); err != nil {
		c.w.failf("%v", err)
	}
}

func (c *cluster) secret(name string) {
	c.w.t.Helper()
	c.add(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"k": []byte("v")}})
}

func (c *cluster) kubernetes() {
	c.w.t.Helper()
	c.add(&v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		Spec:       v1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []v1.ServicePort{{Name: "https", Port: 443, Protocol: v1.ProtocolTCP}}},
	})
}

// watches are the watches of the agent that are under way, by kind and object.
func (w *world) watches() []string {
	var out []string
	for _, a := range w.system.Snapshot("") {
		if a.Path != nodeName+"/apiobjects" {
			continue
		}
		for _, e := range a.Effects {
			out = append(out, e.Kind+" "+e.Object)
		}
	}
	slices.Sort(out)
	return out
}

func TestContainersAreMadeWithTheirObjects(t *testing.T) {
	t.Parallel()
	var m made
	w, c := newClusterNode(t, 1, withMade(&m))
	c.kubernetes()
	c.configMap("settings", "one")
	c.secret("password")
	c.create(aPod("web").fromMap("settings").fromSecret("password"), aPod("other").fromMap("settings"))
	if took := w.until(10*time.Second, "Ready", func() bool { return c.allReady("web", "other") }); took > 2*time.Second {
		t.Errorf("Ready after %v", took)
	}
	check.Equal(t, m.value(t, "app", "settings"), "one", "made with")
	if got, _ := m.calls[0].Env.Lookup("KUBERNETES_SERVICE_HOST"); got != "10.96.0.1" {
		t.Errorf("made with service kubernetes at %q", got)
	}
	if got, want := w.watches(), []string{"WatchConfigMap default/settings", "WatchSecret default/password", "WatchServices "}; !slices.Equal(got, want) {
		t.Errorf("watches %v, want %v", got, want)
	}

	// A container that runs keeps what it has; the next one has the newest.
	calls := len(m.calls)
	c.setConfigMap("settings", "two")
	w.run(time.Minute)
	check.Equal(t, len(m.calls), calls, "a change of a ConfigMap made %d containers", len(m.calls)-calls)
	w.end("web", "app", 1)
	w.until(time.Second, "restarted", func() bool { return w.runs("web", "app", 1) })
	check.Equal(t, m.value(t, "app", "settings"), "two", "restarted with")

	c.delete("web", nil)
	w.until(time.Minute, "web is gone", func() bool { return c.get("web") == nil })
	w.run(time.Second)
	check.Same(t, w.watches(), []string{"WatchConfigMap default/settings", "WatchServices "}, "watches")
	if w.crashes > 0 {
		w.failf("%d crashes", w.crashes)
	}
}

// TestMissingObject: people see which one, and the pod goes on as soon as it is
// there.
func TestMissingObject(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.kubernetes()
	c.create(aPod("web").fromMap("later").main("free"), aPod("going").fromSecret("never"))
	w.run(3 * time.Second)
	for _, s := range c.get("web").Status.ContainerStatuses {
		switch {
		case s.Name == "free" && s.State.Running == nil:
			t.Errorf("a container that needs nothing waits: %+v", s.State)
		case s.Name == "app" && (s.State.Waiting == nil || s.State.Waiting.Reason != "CreateContainerConfigError" || s.State.Waiting.Message != `configmap "later" not found`):
			t.Errorf("people are shown %+v", s.State)
		}
	}
	if !slices.ContainsFunc(w.events, func(e port.Event) bool {
		return e.Warning && e.Reason == "Failed" && e.Message == `Error: configmap "later" not found` && e.Container == "app"
	}) {
		t.Errorf("no event says so: %v", w.events)
	}
	w.run(3 * time.Minute) // until the backoff has grown
	c.configMap("later", "x")
	if took := w.until(time.Minute, "runs", func() bool { return w.runs("web", "app", 0) }); took > 200*time.Millisecond {
		t.Errorf("runs %v after its ConfigMap is there", took)
	}
	c.delete("going", nil)
	if took := w.until(time.Minute, "a pod whose Secret is missing ends", func() bool { return c.get("going") == nil }); took > 2*time.Second {
		t.Errorf("ended after %v", took)
	}
	// A key that is not there is another thing.
	c.create(aPod("key").fromMap("empty"))
	c.add(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "empty"}})
	w.run(3 * time.Second)
	if s := c.get("key").Status.ContainerStatuses[0].State.Waiting; s == nil || s.Message != "couldn't find key k in ConfigMap default/empty" {
		t.Errorf("people are shown %+v", s)
	}
	c.setConfigMapData("empty", map[string]string{"k": "v"})
	if took := w.until(time.Minute, "runs", func() bool { return c.ready("key") }); took > 500*time.Millisecond {
		t.Errorf("runs %v after the key is there", took)
	}
}

func (c *cluster) setConfigMapData(name string, data map[string]string) {
	c.w.t.Helper()
	o, err := c.api.Get(port.APIKey{Kind: port.ConfigMapKind, Namespace: "default", Name: name})
	if err != nil {
		c.w.failf("%v", err)
	}
	to := o.(*v1.ConfigMap).DeepCopy()
	to.Data = data
	if _, err := c.api.Update(to); err != nil {
		c.w.failf("%v", err)
	}
}

// TestPodsWithoutObjectsCostNothing: nobody sends a message for them.
func TestPodsWithoutObjectsCostNothing(t *testing.T) {
	w, c := parallelCluster(t, 1, withConfig(func(c *agent.Config) { c.Cluster.Objects.NoServices = true }))
	heard := 0
	w.around = func(actor string, m any, handled bool) {
		_, answer := m.(pod.ObjectsAnswer)
		if actor == "apiobjects" || answer {
			heard++
		}
	}
	c.create(aPod("web"), aPod("db").volume("data"))
	w.until(10*time.Second, "Ready", func() bool { return c.allReady("web", "db") })
	c.delete("web", nil)
	w.until(time.Minute, "gone", func() bool { return c.get("web") == nil })
	check.AtMost(t, heard, 0, "%d messages", heard)
}

// TestObjectsWithoutTheAPI: while the apiserver is away the newest that was heard
// counts, and what was never heard is said to be so.
func TestObjectsWithoutTheAPI(t *testing.T) {
	t.Parallel()
	var m made
	w, c := newClusterNode(t, 1, withMade(&m))
	c.kubernetes()
	c.configMap("settings", "one")
	c.create(aPod("web").fromMap("settings"))
	w.add(aPod("static"))
	w.until(10*time.Second, "Ready", func() bool { return c.allReady("web", "static-"+nodeName) })
	c.api.SetDown(true)
	w.end("web", "app", 1)
	w.until(5*time.Second, "restarted", func() bool { return w.runs("web", "app", 1) })
	w.add(aPod("late"))
	w.until(10*time.Second, "a static pod starts", func() bool { return w.runs("late", "app", 0) })
	w.restart()
	w.run(time.Minute)
	w.add(aPod("later"))
	w.until(10*time.Second, "a static pod starts under an agent that has never heard the apiserver", func() bool { return w.runs("later", "app", 0) })
	c.api.SetDown(false)
	c.create(aPod("new").fromMap("settings"))
	w.until(2*time.Minute, "a new pod", func() bool { return c.ready("new") })
}

// withObjects are pods that use all kinds of objects.
func withObjects() []*spec {
	return []*spec{
		aPod("a-map").fromMap("settings").fromMap("late"),
		aPod("b-secret").fromSecret("password").main("second").fromMap("settings"),
		aPod("c-none"),
	}
}

func objectsUp(w *world) {
	w.cluster.kubernetes()
	w.cluster.configMap("settings", "one")
	w.cluster.secret("password")
	w.cluster.create(withObjects()...)
	w.v.AfterFunc(300*time.Millisecond, func() { w.cluster.configMap("late", "x") })
}

func objectsAreUp(w *world) bool { return w.cluster.allReady("a-map", "b-secret", "c-none") }

// TestObjectsKilledAtEveryBoundary kills the agent after each message, once: the
// pods come up all the same, each container with what it names.
func TestObjectsKilledAtEveryBoundary(t *testing.T) {
	t.Parallel()
	var m *made
	atBoundaries(t, every(7), func(int) *world {
		m = new(made)
		w, _ := newClusterNode(t, 1, withMade(m), withAPI())
		w.watch.restartsExpected = false
		objectsUp(w)
		return w
	}, objectsAreUp, func(k int, w *world) {
		w.restart()
		w.until(2*time.Minute, "all are up", func() bool { return objectsAreUp(w) })
		for _, r := range m.calls {
			named := []string{"KUBERNETES_SERVICE_HOST"}
			for i := range r.Container.Env {
				named = append(named, r.Container.Env[i].Name)
			}
			if len(r.Container.EnvFrom) > 0 {
				named = append(named, "k") // the key of the secret
			}
			for _, name := range named {
				if _, ok := r.Env.Lookup(name); !ok {
					w.failf("killed after %d: %s was made without %s", k, r.Container.Name, name)
				}
			}
		}
		w.clusterQuiet()
	})
}

// TestObjectsPanics lets the actor panic once on each of its messages, before it
// is handled and after: pods come up and go, and no watch is left.
func TestObjectsPanics(t *testing.T) {
	panicsAnywhere(t, 20, oneClusterNode, func(w *world) {
		objectsUp(w)
		w.until(3*time.Minute, "all are up", func() bool { return objectsAreUp(w) })
		w.cluster.setConfigMap("settings", "two")
		w.run(5 * time.Second)
		for _, s := range withObjects() {
			w.cluster.delete(s.Name, nil)
		}
		w.until(3*time.Minute, "nothing is left", w.cluster.nothingLeft)
		w.run(20 * time.Second)
	}, func(w *world) {
		w.clusterQuiet()
		if got := w.watches(); len(got) > 1 {
			w.failf("watches %v", got)
		}
	}, "apiobjects", "pod/a-map", "pod/b-secret")
}

// TestObjectsOverflow: an actor with room for few messages misses some, and all
// is well in the end.
func TestObjectsOverflow(t *testing.T) {
	t.Parallel()
	var m made
	w, c := newClusterNode(t, 1, withMade(&m), withMailboxes(45))
	c.kubernetes()
	c.configMap("settings", "one")
	c.secret("password")
	all := names("p", 40)
	for _, n := range all {
		c.configMap(n, n)
		c.create(aPod(n).fromMap("settings").fromMap(n).fromSecret("password"))
	}
	for range 3 { // more than fits: restarts, which all pods answer, and a change of all
		ref, ok := kernel.Lookup[apiobjects.Message](w.system, nodeName+"/apiobjects")
		if !ok {
			t.Fatal("there is no apiobjects actor")
		}
		w.run(50 * time.Millisecond)
		for range 60 {
			ref.Tell(apiobjects.Forget{UID: "nobody"})
		}
		for _, n := range all {
			c.setConfigMap(n, "changed")
		}
	}
	w.until(5*time.Minute, "all are up", func() bool { return c.allReady(all...) })
	c.setConfigMap("settings", "two")
	w.run(10 * time.Second)
	w.end(all[0], "app", 1)
	w.until(time.Minute, "restarted", func() bool { return w.runs(all[0], "app", 1) })
	check.Equal(t, m.value(t, "app", "settings"), "two", "restarted with")
	for _, n := range all {
		c.delete(n, nil)
	}
	w.until(5*time.Minute, "nothing is left", c.nothingLeft)
	w.run(10 * time.Second)
	if got := w.watches(); len(got) > 1 {
		t.Errorf("watches are left: %v", got)
	}
}

// TestDetection: without watches a change is seen within a minute, and a new pod
// has the newest at once.
func TestDetection(t *testing.T) {
	t.Parallel()
	for _, how := range []apiobjects.Detection{apiobjects.Cache, apiobjects.Get} {
		var m made
		w, c := newClusterNode(t, 1, withMade(&m), withConfig(func(c *agent.Config) { c.Cluster.Objects.Detection = how }))
		c.kubernetes()
		c.configMap("settings", "one")
		c.create(aPod("web").fromMap("settings").fromMap("later"))
		w.run(10 * time.Second)
		c.configMap("later", "x")
		w.until(40*time.Second, "Ready", func() bool { return c.ready("web") })
		check.Same(t, w.watches(), []string{"WatchServices "}, "watches")
		c.setConfigMap("settings", "two")
		w.run(70 * time.Second)
		w.end("web", "app", 1)
		w.until(time.Second, "restarted", func() bool { return w.runs("web", "app", 1) })
		check.Equal(t, m.value(t, "app", "settings"), "two", "restarted with")
	}
}

// TestForbiddenForAMoment: the apiserver learns a moment later than the node which
// objects the node may see. Nobody is told of that, and it takes no longer than
// it has to.
func TestForbiddenForAMoment(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.kubernetes()
	c.configMap("settings", "one")
	var until time.Time
	c.fault = func(call simapi.Call) simapi.Fault {
		if call.Key.Kind == port.ConfigMapKind && w.v.Now().Before(until) {
			return simapi.Fault{Fail: true, Kind: port.Forbidden, Detail: "no relationship found between node 'n1' and this object"}
		}
		return simapi.Fault{}
	}
	until = w.v.Now().Add(300 * time.Millisecond)
	c.create(aPod("web").fromMap("settings"))
	check.AtMost(t, w.until(10*time.Second, "Ready", func() bool { return c.ready("web") }), time.Second, "Ready after")
	if l := strings.Join(c.shown["web"], " "); strings.Contains(l, "ConfigError") {
		t.Errorf("people were shown %s", l)
	}
	until = w.v.Now().Add(time.Hour)
	c.create(aPod("never").fromMap("other"))
	w.run(10 * time.Second)
	if s := c.get("never").Status.ContainerStatuses[0].State.Waiting; s == nil || s.Reason != "CreateContainerConfigError" || !strings.Contains(s.Message, "no relationship found") {
		t.Errorf("people are shown %+v", s)
	}
}

// TestTokens: a token is renewed before it expires, kept while it can't be, and
// told to the pod.
func TestTokens(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.kubernetes()
	c.add(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot"}})
	var told []*podobjects.IssuedToken
	var last podobjects.Set
	ref := podobjects.Ref{Kind: podobjects.Token, Namespace: "default", Name: "robot", Audience: "vault", ExpirationSeconds: 3600}
	w.around = func(_ string, m any, handled bool) {
		if a, ok := m.(pod.ObjectsAnswer); ok && handled {
			last = a.Objects
			if tok, err := a.Objects.Token(ref); err == nil && (len(told) == 0 || told[len(told)-1] != tok) {
				told = append(told, tok)
			}
		}
	}
	s := aPod("web")
	s.Spec.ServiceAccountName = "robot"
	hour := int64(3600)
	s.Spec.Volumes = []v1.Volume{{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", Audience: "vault", ExpirationSeconds: &hour}},
	}}}}}
	podtest.UseVolumes(&s.Spec)
	c.create(s)
	w.until(10*time.Second, "a token", func() bool { return len(told) == 1 })
	begin := w.v.Now()
	w.until(time.Hour, "another", func() bool { return len(told) == 2 })
	if d := w.v.Now().Sub(begin); d < 47*time.Minute || d > 48*time.Minute+time.Second {
		t.Errorf("renewed after %v", d)
	}
	if told[0].Value == told[1].Value || !told[1].Expires.After(told[0].Expires) {
		t.Errorf("%+v then %+v", told[0], told[1])
	}
	away := true
	c.fault = func(call simapi.Call) simapi.Fault {
		if call.Verb == simapi.CreateToken && away {
			return simapi.Fault{Fail: true, Kind: port.Unavailable}
		}
		return simapi.Fault{}
	}
	w.run(55 * time.Minute)
	if tok, err := last.Token(ref); err != nil || tok != told[1] {
		t.Errorf("a token that can't be renewed: %v, %v", tok, err)
	}
	w.run(10 * time.Minute)
	if _, err := last.Token(ref); podobjects.StateOf(err) != podobjects.Failed || !strings.Contains(err.Error(), "failed to fetch token") {
		t.Errorf("a token that has expired: %v", err)
	}
	away = false
	w.until(time.Minute, "a token again", func() bool { return len(told) == 3 })
}

// TestRuntimeClass: the sandbox waits for it, people see that it is missing, and
// it is made as soon as it is there.
func TestRuntimeClass(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.kubernetes()
	s := aPod("web")
	s.Spec.RuntimeClassName = new("kata")
	c.create(s)
	w.run(time.Minute)
	if _, made := w.sandboxOf("web"); made || !slices.ContainsFunc(w.events, func(e port.Event) bool {
		return e.Warning && e.Reason == "FailedCreatePodSandBox" && strings.Contains(e.Message, `runtimeclass.node.k8s.io "kata" not found`)
	}) {
		t.Errorf("sandbox %v, events %v", made, w.events)
	}
	c.add(&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "kata"}, Handler: "qemu"})
	if took := w.until(time.Minute, "Ready", func() bool { return c.ready("web") }); took > 2*time.Second {
		t.Errorf("Ready %v after it is there", took)
	}
}
