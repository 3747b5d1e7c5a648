package metrics_test

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestVolumesAreReadOnce: to read volumes costs a process for each, so all who ask at a time share one reading.
func TestVolumesAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a, readings := fresh(t), asked(), 0
		a.Volumes = func(context.Context) ([]*v1.Pod, []usage.Pod, error) {
			readings++
			time.Sleep(time.Second) // on the test's clock
			return volumePods, volumes, nil
		}
		var all sync.WaitGroup
		for _, r := range m.Routes(a) {
			if r.Path != "/metrics" {
				continue
			}
			for range 96 {
				all.Go(func() {
					w := httptest.NewRecorder()
					r.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", r.Path, nil))
					check.Has(t, w.Body.String(), "kubelet_volume_stats_used_bytes", "the metrics")
				})
			}
		}
		all.Wait()
		check.Equal(t, readings, 1, "readings for 96 who ask")
	})
}
