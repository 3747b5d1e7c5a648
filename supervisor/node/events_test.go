package node

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/events"
)

// TestLostEvents: whoever reads the log learns that events were dropped, how many and why,
// and has not a line of each.
func TestLostEvents(t *testing.T) {
	var log bytes.Buffer
	v := kernel.NewVirtual(1, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	counted := map[string]int{}
	l := &lostEvents{log: zerolog.New(&log).Level(zerolog.InfoLevel), clock: v, count: func(why string) { counted[why]++ }}
	e := port.Event{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}, Reason: "Started"}
	expect := func(want ...string) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if log.Len() == 0 {
			lines = nil
		}
		log.Reset()
		if len(lines) != len(want) {
			t.Fatalf("got %q, want %q", lines, want)
		}
		for i := range want {
			if !strings.Contains(lines[i], want[i]) {
				t.Errorf("got %q, want %q", lines[i], want[i])
			}
		}
	}
	l.dropped(e, events.ErrQueueFull)
	expect(`"events":1,`)
	for range 300 {
		l.dropped(e, events.ErrQueueFull)
	}
	l.dropped(port.Event{Node: "n1", Reason: "Rebooted"}, fmt.Errorf("create Event: %w", &port.Error{Kind: port.Forbidden}))
	expect()
	v.Advance(lostPause)
	expect(`"events":301,`)
	v.Advance(10 * lostPause)
	expect()
	l.dropped(e, events.ErrClosed)
	l.dropped(e, events.ErrClosed)
	expect(`"events":1,`)
	l.sayRest()
	expect(`"events":1,"error":"` + events.ErrClosed.Error())
	if counted["queue_full"] != 301 || counted["refused"] != 1 || counted["agent_ended"] != 2 || len(counted) != 3 {
		t.Errorf("counted %v", counted)
	}
}
