// Package apiserver holds apiclient/kube to the suite of the API port on a real
// apiserver, and shows what a node may do there and what becomes of a client
// when the apiserver, the network or the credential fails.
package apiserver

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/tcpproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

var shared = lab.Shared{Name: "troupe-apiserver", Own: true, Plane: lab.ControlPlaneConfig{Log: os.Stderr}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// plane is the control plane, with an apiserver that runs.
func plane(t *testing.T) *lab.ControlPlane {
	t.Helper()
	lab.Need(t, lab.GoToolchain)
	p := check.Value(shared.ControlPlane())(t)
	if p.APIServerPID() == 0 { // a test failed between
		check.Fatal(t, p.StartAPIServer(t.Context()))
	}
	return p
}

// noLeaks fails the test if it leaves goroutines behind. It is called before
// anything is started.
func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	// The apiserver may be another process by then.
	process := goleak.IgnoreAnyFunction("github.com/troupe-dev/troupe/tests/e2e/lab.StartProcess.func1")
	t.Cleanup(func() { goleak.VerifyNone(t, before, process) })
}

// client makes a client of a kubeconfig that ends with the test.
func client(t *testing.T, kubeconfig string, log zerolog.Logger) *kube.Client {
	t.Helper()
	rest := check.Value(kube.Load(kubeconfig))(t)
	c := check.Value(kube.New(kube.Config{REST: rest, Version: "test", QPS: -1, Log: log}))(t)
	t.Cleanup(c.Close)
	return c
}

// as is the kubeconfig of an identity.
func as(t *testing.T, id lab.Identity) string {
	t.Helper()
	path := check.Value(plane(t).KubeconfigOf(id))(t)
	return path
}

func admin(t *testing.T) *kube.Client {
	return client(t, as(t, lab.Identity{User: "test-admin", Groups: []string{"system:masters"}}), zerolog.Nop())
}

// proxy stands before the apiserver for one test.
func proxy(t *testing.T) *tcpproxy.Proxy {
	t.Helper()
	p := check.Value(tcpproxy.New(plane(t).Address()))(t)
	t.Cleanup(p.Close)
	return p
}

// lines is a log that a test reads.
type lines struct{ lab.Buffer }

// with are the lines that contain all words.
func (l *lines) with(words ...string) (found []string) {
next:
	for line := range strings.Lines(l.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		found = append(found, strings.TrimSpace(line))
	}
	return found
}

// answer is what a call gave.
type answer[T any] struct {
	value T
	err   error
}

// wait makes a call and waits for its answer.
func wait[T any](t *testing.T, call func(done func(T, error))) (T, error) {
	t.Helper()
	got := make(chan answer[T], 1)
	call(func(v T, err error) { got <- answer[T]{v, err} })
	select {
	case a := <-got:
		return a.value, a.err
	case <-time.After(time.Minute):
		t.Fatal("no answer within a minute")
		panic("unreachable")
	}
}

func get(t *testing.T, c port.API, k port.APIKey) (port.APIObject, error) {
	t.Helper()
	return wait(t, func(done func(port.APIObject, error)) { c.Get(t.Context(), k, done) })
}

func create(t *testing.T, c port.API, o port.APIObject) (port.APIObject, error) {
	t.Helper()
	return wait(t, func(done func(port.APIObject, error)) { c.Create(t.Context(), o, done) })
}

func patch(t *testing.T, c port.API, p port.APIPatch) (port.APIObject, error) {
	t.Helper()
	p.Key = port.APIKeyOf(p.From)
	return wait(t, func(done func(port.APIObject, error)) { c.Patch(t.Context(), p, done) })
}

func remove(t *testing.T, c port.API, o port.APIObject) error {
	t.Helper()
	_, err := wait(t, func(done func(struct{}, error)) {
		c.Delete(t.Context(), port.APIDelete{Key: port.APIKeyOf(o), UID: o.GetUID(), Grace: new(int64)}, func(err error) { done(struct{}{}, err) })
	})
	return err
}

// made creates an object for the time of the test, at the end of which the
// administrator removes it.
func made[T port.APIObject](t *testing.T, c port.API, o T) T {
	t.Helper()
	a := admin(t)
	got := check.Value(create(t, c, o))(t)
	t.Cleanup(func() {
		_, err := wait(t, func(done func(struct{}, error)) {
			a.Delete(context.Background(), port.APIDelete{Key: port.APIKeyOf(o), Grace: new(int64)}, func(err error) { done(struct{}{}, err) })
		})
		if err != nil && port.KindOf(err) != port.NotFound {
			t.Error(err)
		}
	})
	return got.(T)
}

func pod(name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: new(bool),
			Containers: []v1.Container{{Name: "c", Image: "test.test/image:1"}},
		},
	}
}

func configMap(name string, data map[string]string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data}
}

// told is what a watch tells, in order.
type told struct {
	t       *testing.T
	stop    context.CancelFunc
	changes chan port.APIChange
	done    chan error
}

// follow begins a watch that ends with the test.
func follow(t *testing.T, c port.API, sel port.Selection) *told {
	ctx, cancel := context.WithCancel(context.Background())
	w := &told{t: t, stop: cancel, changes: make(chan port.APIChange, 10_000), done: make(chan error, 1)}
	c.Watch(ctx, sel, func(c port.APIChange) { w.changes <- c }, func(err error) { w.done <- err })
	t.Cleanup(func() {
		cancel()
		if err := <-w.done; port.KindOf(err) != port.Canceled {
			t.Errorf("the watch ended with %v", err)
		}
	})
	return w
}

// until reads changes until one fits, and fails the test after limit.
func (w *told) until(what string, limit time.Duration, fits func(port.APIChange) bool) port.APIChange {
	w.t.Helper()
	late := time.After(limit)
	for {
		select {
		case c := <-w.changes:
			if fits(c) {
				return c
			}
		case <-late:
			w.t.Fatalf("the watch does not tell of %s within %v", what, limit)
		}
	}
}

func isReplaced(c port.APIChange) bool { _, ok := c.(port.APIReplaced); return ok }

func isBroken(c port.APIChange) bool { _, ok := c.(port.APIBroken); return ok }

// shows says whether a change tells of a version of the object, or of a newer one.
func shows(name, label, value string) func(port.APIChange) bool {
	fits := func(o port.APIObject) bool { return o.GetName() == name && o.GetLabels()[label] == value }
	return func(c port.APIChange) bool {
		switch c := c.(type) {
		case port.APISet:
			return fits(c.Object)
		case port.APIReplaced:
			for _, o := range c.Objects {
				if fits(o) {
					return true
				}
			}
		}
		return false
	}
}

// labelled is a copy with one more label.
func labelled[T port.APIObject](o T, key, value string) T {
	c := o.DeepCopyObject().(T)
	labels := map[string]string{}
	for k, v := range o.GetLabels() {
		labels[k] = v
	}
	labels[key] = value
	c.SetLabels(labels)
	return c
}

func wantKind(t *testing.T, what string, err error, want port.ErrorKind) {
	t.Helper()
	if e, ok := errors.AsType[*port.Error](err); !ok || e.Kind != want {
		t.Errorf("%s: %v, want an error of kind %s", what, err, want)
	} else if strings.Contains(err.Error(), "\n") || e.Verb == "" || e.Object == "" {
		t.Errorf("%s: %q should be one line that names verb and object", what, err)
	}
}
