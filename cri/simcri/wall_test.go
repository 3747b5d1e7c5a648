package simcri

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestWallClockConcurrent is for the race detector: calls from many goroutines,
// contexts that end, a runtime that is killed, and callbacks that never overlap.
func TestWallClockConcurrent(t *testing.T) {
	r := check.Value(New(Config{Clock: kernel.WallClock{}, Rand: streams(1), Latencies: flat(), LateEffect: 0.5}))(t)
	r.MakeImagePresent(testImage, RegistryImage{})
	var inside atomic.Int32
	alone := func() {
		check.Equal(t, inside.Add(1), 1, "two callbacks at once")
		inside.Add(-1)
	}
	events, cancelEvents := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Add(1)
	r.Events(events, alone, func(port.RuntimeEvent) { alone() }, func(error) { alone(); all.Done() })
	for i := range 30 {
		all.Add(1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
			p := aPod(fmt.Sprint("p", i))
			finish := func(error) { alone(); cancel(); all.Done() }
			r.RunPodSandbox(ctx, port.RunPodSandbox{Pod: p}, func(id string, err error) {
				if err != nil {
					finish(err)
					return
				}
				r.CreateContainer(ctx, creation(p, id, 0), func(c string, err error) {
					r.StartContainer(ctx, c, func(error) {
						r.StopContainer(ctx, c, time.Second, func(error) { r.RemovePodSandbox(ctx, id, finish) })
					})
				})
			})
		}()
	}
	r.Kill()
	r.Restart()
	r.Truth()
	cancelEvents()
	all.Wait()
}
