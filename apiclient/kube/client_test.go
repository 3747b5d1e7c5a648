package kube

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func aConfigMap(version string) *v1.ConfigMap {
	return &v1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", ResourceVersion: version},
	}
}

func TestRequest(t *testing.T) {
	seen := make(chan *http.Request, 10)
	config := server(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Clone(context.Background())
		give(w, http.StatusOK, aConfigMap("1"))
	})
	c := newClient(t, Config{REST: config})
	check.Value(getOf(t, c, web))(t)
	r := <-seen
	if r.UserAgent() != "troupe/1.2.3" || r.URL.Path != "/api/v1/namespaces/default/configmaps/web" || r.ProtoMajor != 2 ||
		!strings.HasPrefix(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf") {
		t.Errorf("the request is %s %s %v", r.Proto, r.URL, r.Header)
	}
	check.Value(result(t, func(done func(port.APIObject, error)) { c.Create(t.Context(), aConfigMap(""), done) }))(t)
	if r = <-seen; r.Header.Get("Content-Type") != "application/vnd.kubernetes.protobuf" {
		t.Errorf("created as %v", r.Header)
	}
	if config.UserAgent != "" || config.Dial != nil || config.WrapTransport != nil {
		t.Errorf("the configuration given was changed: %+v", config)
	}
}

// TestLanes: what keeps the node alive waits for nothing, and events and claims hold back
// nothing.
func TestLanes(t *testing.T) {
	config := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "leases"):
			give(w, http.StatusOK, &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}})
		case strings.Contains(r.URL.Path, "events"):
			give(w, http.StatusOK, &v1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}})
		case strings.Contains(r.URL.Path, "claims"):
			give(w, http.StatusOK, &v1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}})
		default:
			give(w, http.StatusOK, aConfigMap("1"))
		}
	})
	// One request, and the next a day later: longer than any deadline.
	const rare = 1.0 / (24 * 3600)
	c := newClient(t, Config{REST: config, QPS: rare, Burst: 1, EventQPS: rare, EventBurst: 1})
	lease := port.APIKey{Kind: port.LeaseKind, Namespace: "kube-node-lease", Name: "n"}
	event := port.APIKey{Kind: port.EventKind, Namespace: "default", Name: "e"}
	claim := port.APIKey{Kind: port.PersistentVolumeClaimKind, Namespace: "default", Name: "c"}
	for i := range 3 {
		for _, k := range []port.APIKey{claim, web, event, lease} {
			_, err := getOf(t, c, k)
			switch held := i > 0 && k.Kind != port.LeaseKind; {
			case held && port.KindOf(err) != port.TooManyRequests:
				t.Errorf("%s, time %d: %v, want it held back", k, i+1, err)
			case !held && err != nil:
				t.Errorf("%s, time %d: %v", k, i+1, err)
			}
		}
	}
	unbound := newClient(t, Config{REST: config, QPS: -1, EventQPS: -1})
	for range 200 {
		check.Value(getOf(t, unbound, web))(t)
	}
}

// TestRetryAfter: an apiserver that asks to come later is asked later, within
// the call.
func TestRetryAfter(t *testing.T) {
	var asked atomic.Int32
	c := newClient(t, Config{REST: server(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "later")
			return
		}
		give(w, http.StatusOK, aConfigMap("1"))
	})})
	if _, err := getOf(t, c, web); err != nil || asked.Load() != 2 {
		t.Errorf("%v after %d requests, want none after 2", err, asked.Load())
	}
}

func TestDeadlineAndClose(t *testing.T) {
	arrived := make(chan struct{}, 10)
	config := server(t, func(_ http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/"+web.Name) { // that one may come only after its deadline
			arrived <- struct{}{}
		}
		<-r.Context().Done() // hangs
	})
	c := newClient(t, Config{REST: config})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := result(t, func(done func(port.APIObject, error)) { c.Get(ctx, web, done) })
	if port.KindOf(err) != port.Deadline || err.Error() != "get ConfigMap default/web: deadline exceeded: no answer in time" {
		t.Errorf("at its deadline the call says %q", err)
	}
	other := web
	other.Name = "other"
	ended := make(chan error, 2)
	c.Get(context.Background(), other, func(_ port.APIObject, err error) { ended <- err })
	c.Watch(context.Background(), port.Selection{Kind: port.PodKind, Namespace: "n", Field: "a=b"}, func(port.APIChange) {}, func(err error) { ended <- err })
	<-arrived
	<-arrived
	c.Close()
	for range 2 {
		if err := <-ended; port.KindOf(err) != port.Canceled {
			t.Errorf("closed, a call says %v", err)
		}
	}
	_, err = result(t, func(done func(port.APIObject, error)) { c.Get(t.Context(), web, done) })
	if port.KindOf(err) != port.Canceled {
		t.Errorf("after Close: %v", err)
	}
	c.Close()
}
