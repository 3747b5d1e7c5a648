package kernel

// scheduler gets a cell when it becomes runnable, and must call its step until that reports false.
type scheduler interface{ ready(*cell) }

// goroutines runs each cell that has messages on its own goroutine, so that an actor that hangs
// blocks no other actor.
type goroutines struct{}

func (goroutines) ready(c *cell) {
	go func() {
		for c.step() {
		}
	}()
}
