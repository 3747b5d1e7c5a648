package scenarios

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/damage"
)

// remembered are checkpoints with something in them, of pods that are gone. The others are as agents leave them.
var remembered = map[string]string{
	"stops":       `{"pods":{"gone":{"since":"2026-01-01T00:00:00Z","grace":30000000000,"firstSandbox":1}}}`,
	"allocations": `{"pods":{"gone":{"generation":2,"containers":{"app":{"requests":{"cpu":"1"}}}}}}`,
}

// TestDamagedCheckpoints: whatever is in the checkpoints when an agent starts, it starts, and its pods run on
// without a restart.
func TestDamagedCheckpoints(t *testing.T) {
	t.Parallel()
	aside := 0
	for seed := range uint64(4) {
		w := newNode(t, seed+1)
		bringUp(w)
		w.allUp(time.Minute)
		w.run(10 * time.Second)
		began := w.mains()
		disk := w.node.Machine().Checkpoints
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test that can be repeated
		for range 15 {
			w.kill()
			put := map[string]string{}
			for _, name := range []string{"allocations", "probes", "static-pods", "stops"} {
				content := w.content(name)
				if remembered[name] != "" {
					content = remembered[name]
				}
				data := damage.Of(r, []byte(content))
				disk.Put(name, data)
				put[name] = string(data)
			}
			w.start()
			w.run(5 * time.Second)
			w.allUp(time.Minute)
			if now := w.mains(); now != began {
				w.failf("the containers are %s, not %s", now, began)
			}
			if w.crashes > 0 {
				w.failf("an actor crashed")
			}
			for name, data := range put {
				if string(disk.Aside(name)) == data {
					aside++
				}
			}
		}
		w.kill()
	}
	check.AtLeast(t, aside, 150, "%d of 240 were set aside", aside)
}

// mains are the IDs of the main containers of few.
func (w *world) mains() (ids string) {
	for _, s := range few() {
		for i := range s.Spec.Containers {
			ids += " " + w.newest(s.Name, s.Spec.Containers[i].Name).ID
		}
	}
	return ids
}

// content is what the last agent wrote in a checkpoint.
func (w *world) content(name string) string {
	var sealed struct{ Content json.RawMessage }
	if data := w.node.Machine().Checkpoints.Get(name); data == nil {
		return "{}"
	} else if err := json.Unmarshal(data, &sealed); err != nil {
		w.failf("checkpoint %s: %v", name, err)
	}
	return string(sealed.Content)
}
