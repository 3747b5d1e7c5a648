package csidrivers_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestGivenUp: a call that nobody waits for any more may work yet, so what it is of stays noted.
func TestGivenUp(t *testing.T) {
	for want, end := range map[port.ErrorKind]func(context.Context) (context.Context, context.CancelFunc){
		port.Canceled: context.WithCancel,
		port.Deadline: func(c context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(c, 300*time.Millisecond)
		},
	} {
		for _, code := range []codes.Code{codes.OK, codes.Internal} {
			t.Run(fmt.Sprint(want, " ", code), func(t *testing.T) {
				r := newRig(t, func(d *driver) { d.entered, d.free = make(chan struct{}, 1), make(chan struct{}) })
				d := r.next()
				r.driver.fail["stage"], r.driver.fail["publish"] = status.Error(code, "late"), status.Error(code, "late")
				var group sync.WaitGroup
				try := func(call func(context.Context, func(error))) {
					t.Helper()
					ctx, cancel := end(t.Context())
					done := make(chan error, 1)
					group.Go(func() { call(ctx, func(err error) { done <- err }) })
					<-r.driver.entered
					if want == port.Canceled {
						cancel()
					}
					err := <-done
					cancel()
					hosttest.WantError(t, err, want)
					if port.CSIOutcome(err) != decide.Unsure {
						t.Error(err)
					}
					r.driver.free <- struct{}{} // the driver answers late
				}
				s, p := stage, publish
				s.Block, p.Block = true, true
				try(func(c context.Context, done func(error)) { r.StageVolume(c, d, stage, done) })
				try(func(c context.Context, done func(error)) {
					r.PublishVolume(c, d, publish, func(_ string, err error) { done(err) })
				})
				try(func(c context.Context, done func(error)) { r.StageVolume(c, d, s, done) })
				try(func(c context.Context, done func(error)) {
					r.PublishVolume(c, d, p, func(_ string, err error) { done(err) })
				})
				group.Wait()
				worked(t)
				if all, bad := r.found(); len(all) != 4 || len(bad) > 0 {
					t.Errorf("found %v, %v", all, bad)
				}
			})
		}
	}
}

// worked waits until nothing goes on that was begun, also without anybody who waits for it.
func worked(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		all := make([]byte, 1<<20)
		if !strings.Contains(string(all[:runtime.Stack(all, true)]), "hostcall.Get") {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a call goes on")
		}
	}
}
