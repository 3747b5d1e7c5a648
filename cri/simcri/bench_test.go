package simcri

import (
	"context"
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/actors/port"
)

// BenchmarkPodLifecycle runs one pod from its sandbox to its removal.
func BenchmarkPodLifecycle(b *testing.B) {
	w := newWorld(b)
	w.MakeImagePresent(testImage, RegistryImage{})
	p := aPod("p")
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		gone := false
		w.RunPodSandbox(ctx, port.RunPodSandbox{Pod: p}, func(id string, _ error) {
			w.CreateContainer(ctx, creation(p, id, 0), func(c string, _ error) {
				w.StartContainer(ctx, c, func(error) {
					w.StopPodSandbox(ctx, id, func(error) {
						w.RemovePodSandbox(ctx, id, func(error) { gone = true })
					})
				})
			})
		})
		w.clock.Advance(patience)
		if !gone {
			b.Fatal("the pod is not gone")
		}
	}
}

// BenchmarkList lists a node of 30 running pods.
func BenchmarkList(b *testing.B) {
	w := newWorld(b)
	for i := range 30 {
		w.running(aPod(fmt.Sprint("p", i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		if n := len(w.list("").Pods); n != 30 {
			b.Fatalf("%d pods", n)
		}
	}
}
