package criproxy

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestFaultByCall: what goes wrong with a call is asked for each, and is over with it.
func TestFaultByCall(t *testing.T) {
	seen := 0
	s := start(t, func(c *Config) {
		c.Fault = func(call Call) *Fault {
			if call.Method != "StopContainer" {
				return nil
			}
			if seen++; seen == 2 {
				return &Fault{Do: Refuse, Code: codes.Unknown}
			}
			return nil
		}
	})
	for n := 1; n <= 3; n++ {
		err := s.stop(t.Context(), "x")
		check.Equal(t, status.Code(err) == codes.Unknown, n == 2, "call %d: %v", n, err)
	}
}

// TestHang: a call that hangs is never made, and fails when the fault is released.
func TestHang(t *testing.T) {
	s := start(t)
	rule := s.inject(t, Fault{Method: "StopContainer", Do: Hang})
	done := make(chan error, 1)
	go func() { done <- s.stop(t.Context(), "x") }()
	eventually(t, "the call hangs", func() error {
		if rule.Waiting() != 1 {
			return notYet("it does not")
		}
		return nil
	})
	s.Release()
	if err := <-done; status.Code(err) != codes.Unavailable || s.has("stop x") {
		t.Errorf("%v, made: %v", err, s.has("stop x"))
	}
}

// TestSlowAndLate: a slow call is made later, a late answer comes after the work.
func TestSlowAndLate(t *testing.T) {
	s := start(t)
	const delay = 50 * time.Millisecond
	for _, do := range []Action{Slow, Withhold} {
		rule := s.inject(t, Fault{Method: "StopContainer", Do: do, Delay: delay, Times: 1})
		begin := time.Now()
		if err := s.stop(t.Context(), do.String()); err != nil || time.Since(begin) < delay || len(rule.Hits()) != 1 {
			t.Errorf("%s: %v after %s, %d hits", do, err, time.Since(begin), len(rule.Hits()))
		}
	}
}

// TestEventFates: an event is dropped, comes twice, or later than those after it.
func TestEventFates(t *testing.T) {
	fates := map[string]Fate{"drop": {Drop: true}, "twice": {Twice: true}, "late": {Delay: 100 * time.Millisecond}}
	s := start(t, func(c *Config) {
		c.Event = func(e *runtimeapi.ContainerEventResponse) Fate { return fates[e.ContainerId] }
	})
	stream := check.Value(s.client.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{}))(t)
	for _, id := range []string{"late", "drop", "twice", "usual"} {
		s.events <- &runtimeapi.ContainerEventResponse{ContainerId: id}
	}
	for _, want := range []string{"twice", "twice", "usual", "late"} {
		if e, err := stream.Recv(); err != nil || e.ContainerId != want {
			t.Fatalf("event %v, %v; want %s", e, err, want)
		}
	}
}
