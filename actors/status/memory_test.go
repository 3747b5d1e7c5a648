package status

import (
	"fmt"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestMemoryOfAPod: what is kept here of one pod beside what others have anyway.
func TestMemoryOfAPod(t *testing.T) {
	const pods, limit = 20000, 300
	uids := make([]types.UID, pods)
	for i := range uids {
		uids[i] = types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
	}
	object, want := &v1.Pod{}, &v1.PodStatus{}
	s := &status{of: map[types.UID]*record{}, calls: map[kernel.EffectID]begun{}}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for _, uid := range uids {
		s.of[uid] = &record{object: object, want: want, written: want}
	}
	each := (heap() - before) / pods
	runtime.KeepAlive(s)
	runtime.KeepAlive(uids)
	t.Logf("%d bytes a pod", each)
	check.AtMost(t, each, limit, "%d bytes a pod", each)
}
