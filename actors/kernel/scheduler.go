package kernel

// scheduler gets a cell when it becomes runnable, and has to call its step
// until that reports false.
type scheduler interface{ ready(*cell) }

// goroutines runs each cell that has messages on a goroutine of its own until
// it has none, so that an actor that does not return blocks no other actor.
type goroutines struct{}

func (goroutines) ready(c *cell) {
	go func() {
		for c.step() {
		}
	}()
}
