package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestEventuallyWatched: a condition is looked at when something changes, and not in between; nothing is missed for a watch
// that ends or that cannot be had.
//
//tier:unit
func TestEventuallyWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now *watch.FakeWatcher
		begun, looks, holds := 0, 0, false
		begin := func(context.Context) (watch.Interface, error) {
			if begun++; begun == 2 {
				return nil, errors.New("refused")
			}
			now = watch.NewFakeWithChanSize(10, false)
			return now, nil
		}
		condition := func() error {
			if looks++; holds {
				return nil
			}
			return errors.New("not yet")
		}
		wait := func() <-chan error {
			done := make(chan error, 1)
			begun, looks, holds = 0, 0, false
			go func() { done <- EventuallyWatched(t.Context(), time.Minute, "it", begin, condition) }()
			synctest.Wait()
			return done
		}

		done, start := wait(), time.Now()
		for range 3 { // told at once, they are looked at once
			now.Modify(nil)
		}
		synctest.Wait()
		if looks != 2 || time.Since(start) != 0 {
			t.Errorf("looked %d times within %v", looks, time.Since(start))
		}
		holds = true
		now.Modify(nil)
		if err := <-done; err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if !now.IsStopped() {
			t.Error("the watch goes on")
		}

		done = wait()
		now.Stop() // the second is refused, the third is there
		time.Sleep(3 * lookAnyway)
		synctest.Wait()
		check.Equal(t, begun, 3, "begun %d times; want a third that lasts", begun)
		holds = true
		now.Modify(nil)
		check.Error(t, <-done)

		done, start = wait(), time.Now() // nothing is told, and it holds all the same
		holds = true
		if err := <-done; err != nil || time.Since(start) > lookAnyway {
			t.Errorf("%v after %v", err, time.Since(start))
		}

		done, start = wait(), time.Now()
		err := <-done
		if err == nil || time.Since(start) != time.Minute || !strings.Contains(err.Error(), "it: not within 1m0s: not yet") {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
