package pods

import (
	"encoding/json"
	"time"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// journal is a checkpoint of this actor. It is read once. Then it is written, one write at a
// time, until it equals the state.
//
//	load ──Loaded──► … ──dirty──► write ──Saved──► …
//	                    ▲          └─failed─► SaveAgain, saveRetry later
//	                    └─────────────────────────┘
type journal struct {
	// loading and saving are the effects under way, 0 for none.
	loading, saving kernel.EffectID
	// dirty: the checkpoint differs from the state. retry: the timer runs.
	dirty, retry bool
}

const saveRetry = 5 * time.Second

func (j *journal) load(ctx *kernel.Context[Message], c port.Checkpoints, name string) {
	j.loading = checkpoint.Load(ctx, c, name, func(id kernel.EffectID, data []byte, err error) Message {
		return Loaded{ID: id, Data: data, Err: err}
	})
}

// read decodes what was loaded into v, a pointer.
func (j *journal) read(m Loaded, v any) error {
	j.loading = 0
	if m.Err != nil || m.Data == nil {
		return m.Err
	}
	return json.Unmarshal(m.Data, v)
}

// due reports whether the checkpoint must be written now.
func (j *journal) due() bool { return j.dirty && j.loading == 0 && j.saving == 0 && !j.retry }

func (j *journal) write(ctx *kernel.Context[Message], c port.Checkpoints, name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // quantities, times and strings
	}
	j.dirty = false
	j.saving = checkpoint.Save(ctx, c, name, data, func(id kernel.EffectID, err error) Message {
		return Saved{ID: id, Err: err}
	})
}

// failed schedules another write.
func (j *journal) failed(ctx *kernel.Context[Message]) {
	j.dirty, j.retry = true, true
	ctx.After(saveRetry, SaveAgain{})
}
