package kube

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// stream begins the answer to a watch.
func stream(w http.ResponseWriter) func(kind string, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	return func(kind string, o any) {
		if err := json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": o}); err != nil {
			panic(err)
		}
		w.(http.Flusher).Flush()
	}
}

// follow begins a watch that ends with the test.
func follow(t *testing.T, c *Client) <-chan port.APIChange {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	changes, done := make(chan port.APIChange, 100), make(chan struct{})
	c.Watch(ctx, port.Selection{Kind: port.ConfigMapKind, Namespace: "default"}, func(c port.APIChange) { changes <- c }, func(error) { close(done) })
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return changes
}

// next is the next change, which must be of a type.
func next[T port.APIChange](t *testing.T, changes <-chan port.APIChange) T {
	t.Helper()
	c := check.Receive(t, changes)
	is, ok := c.(T)
	if !ok {
		t.Fatalf("told %#v, want a %T", c, is)
	}
	return is
}

func list(version string, items ...v1.ConfigMap) *v1.ConfigMapList {
	return &v1.ConfigMapList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
		ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: items,
	}
}

func bookmark(version string) *v1.ConfigMap {
	o := aConfigMap(version)
	o.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	return o
}

// TestWatchStreamsItsList: the first list comes as a stream, in order.
func TestWatchStreamsItsList(t *testing.T) {
	c := newClient(t, Config{REST: server(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("watch") != "true" || q.Get("sendInitialEvents") != "true" || q.Get("resourceVersion") != "" {
			t.Errorf("asked for %s", r.URL)
		}
		send := stream(w)
		for _, name := range []string{"c", "a", "b"} {
			o := aConfigMap("5")
			o.Name = name
			send("ADDED", o)
		}
		send("BOOKMARK", bookmark("6"))
		send("MODIFIED", aConfigMap("7"))
		send("DELETED", aConfigMap("8"))
		<-r.Context().Done()
	})})
	changes := follow(t, c)
	names := ""
	for _, o := range next[port.APIReplaced](t, changes).Objects {
		names += o.GetName()
	}
	if names != "abc" {
		t.Errorf("the list is in the order %s", names)
	}
	if o := next[port.APISet](t, changes).Object; o.GetResourceVersion() != "7" {
		t.Errorf("set to %v", o)
	}
	if o := next[port.APIDeleted](t, changes).Object; o.GetResourceVersion() != "8" {
		t.Errorf("deleted %v", o)
	}
}

// TestWatchWithoutStreamedLists: an apiserver that has none is asked for a list,
// and never for one from its memory.
func TestWatchWithoutStreamedLists(t *testing.T) {
	c := newClient(t, Config{REST: server(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case q.Get("sendInitialEvents") != "":
			refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden")
		case q.Get("watch") == "":
			if v, ok := q["resourceVersion"]; ok && v[0] != "" {
				t.Errorf("the first list is asked for from version %q", v)
			}
			give(w, http.StatusOK, list("5", *aConfigMap("4")))
		default:
			if q.Get("resourceVersion") != "5" {
				t.Errorf("the watch goes on from %s, want 5", q.Get("resourceVersion"))
			}
			stream(w)("MODIFIED", aConfigMap("6"))
			<-r.Context().Done()
		}
	})})
	changes := follow(t, c)
	if n := len(next[port.APIReplaced](t, changes).Objects); n != 1 {
		t.Errorf("%d objects", n)
	}
	next[port.APISet](t, changes)
}

// TestWatchBroken: each reason is told once, and what ends normally isn't one.
func TestWatchBroken(t *testing.T) {
	streams := 0
	c := newClient(t, Config{REST: server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "you may not list")
			return
		}
		switch streams++; streams {
		case 1, 2:
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "you may not watch")
		case 3:
			refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		case 4:
			send := stream(w)
			send("BOOKMARK", bookmark("5"))
			send("ERROR", &metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
				Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old resource version",
			})
		default:
			send := stream(w)
			send("ADDED", aConfigMap("7"))
			send("BOOKMARK", bookmark("8"))
			<-r.Context().Done()
		}
	})})
	changes := follow(t, c)
	first := next[port.APIBroken](t, changes).Err
	if port.KindOf(first) != port.Forbidden || !strings.HasPrefix(first.Error(), "watch ConfigMap in default: forbidden: you may not") {
		t.Errorf("broken by %v", first)
	}
	if err := next[port.APIBroken](t, changes).Err; port.KindOf(err) != port.Unauthorized {
		t.Errorf("broken by %v", err)
	}
	if err := next[port.APIBroken](t, changes).Err; port.KindOf(err) != port.Forbidden { // the list after it
		t.Errorf("broken by %v", err)
	}
	if n := len(next[port.APIReplaced](t, changes).Objects); n != 0 {
		t.Errorf("%d objects, want none", n)
	}
	if n := len(next[port.APIReplaced](t, changes).Objects); n != 1 { // after 410, without a word
		t.Errorf("%d objects, want one", n)
	}
}
