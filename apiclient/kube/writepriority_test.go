package kube

import (
	"context"
	"net/http"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

func TestRush(t *testing.T) {
	var r rush
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	expect := func(want bool) {
		t.Helper()
		if r.is(many, now) != want {
			t.Errorf("with %d under way it says %v", r.under, !want)
		}
	}
	expect(false)
	for range many - 1 {
		r.begin(now)
		r.end()
	}
	expect(false)
	r.begin(now)
	expect(true)
	r.end()
	now = now.Add(within - 1)
	expect(true)
	now = now.Add(1)
	expect(false)
	for range many { // rarely, but nobody answers
		r.begin(now)
		now = now.Add(time.Minute)
	}
	expect(true)
	r.end()
	expect(false)
	for range many - 1 {
		r.end()
	}
	now = now.Add(time.Minute)
	for range crowd {
		if r.is(crowd, now) {
			t.Error("too few make a crowd")
		}
		r.begin(now)
	}
	if !r.is(crowd, now) || !r.is(many, now) {
		t.Error("it is a crowd")
	}
}

// TestBusy: only writes count, and not those of leases and events.
func TestBusy(t *testing.T) {
	c := newClient(t, Config{QPS: -1, EventQPS: -1, REST: server(t, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "no")
	})})
	many := 2 * many
	for range many {
		_, _ = getOf(t, c, web)
		_, _ = result(t, func(done func(port.APIObject, error)) {
			c.Create(context.Background(), &v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}}, done)
		})
	}
	if busy, crowded := c.Load(); busy || crowded || c.Busy() {
		t.Error("it is busy with what is not to count")
	}
	for range many {
		_, _ = result(t, func(done func(port.APIObject, error)) { c.Create(context.Background(), aConfigMap(""), done) })
	}
	if busy, crowded := c.Load(); !busy || crowded || !c.Busy() {
		t.Errorf("busy %v, crowded %v", busy, crowded)
	}
}
