package pods

import (
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
type journal[T any] struct {
	file *checkpoint.File[T]
	// loading and saving are the effects under way, 0 for none.
	loading, saving kernel.EffectID
	// dirty: the checkpoint differs from the state. retry: the timer runs.
	dirty, retry bool
}

const saveRetry = 5 * time.Second

func (j *journal[T]) load(ctx *kernel.Context[Message], c port.Checkpoints, f *checkpoint.File[T]) {
	j.file = f
	j.loading = checkpoint.Load(ctx, c, f, func(id kernel.EffectID, content checkpoint.Content) Message {
		return Loaded{ID: id, Content: content}
	})
}

// read takes what was loaded.
func (j *journal[T]) read(ctx *kernel.Context[Message], m Loaded) T {
	j.loading = 0
	return j.file.Take(ctx.Log(), &m.Content)
}

// due reports whether the checkpoint must be written now.
func (j *journal[T]) due() bool { return j.dirty && j.loading == 0 && j.saving == 0 && !j.retry }

func (j *journal[T]) write(ctx *kernel.Context[Message], c port.Checkpoints, v T) {
	j.dirty = false
	j.saving = checkpoint.Save(ctx, c, j.file, v, func(id kernel.EffectID, err error) Message {
		return Saved{ID: id, Err: err}
	})
}

// failed schedules another write.
func (j *journal[T]) failed(ctx *kernel.Context[Message]) {
	j.dirty, j.retry = true, true
	ctx.After(saveRetry, SaveAgain{})
}
