package kernel

// Call is the effect under way of which an actor awaits the result, if there is one: results of others are late. The
// zero value is none. It is not a slot of a Pool, which the effect may have besides.
type Call struct{ id EffectID }

// Begin notes the effect of which the result is awaited from now on, and of no earlier one.
func (c *Call) Begin(id EffectID) { c.id = id }

// Busy reports whether a result is awaited.
func (c *Call) Busy() bool { return c.id != 0 }

// Take reports whether a result is the one that is awaited. Then no other is.
func (c *Call) Take(id EffectID) bool {
	if c.id != id || id == 0 {
		return false
	}
	c.id = 0
	return true
}

// Cancel gives up the effect: see Context.Cancel. Its result is not awaited any more.
func (c *Call) Cancel(ctx interface{ Cancel(EffectID) bool }) {
	if c.id != 0 {
		ctx.Cancel(c.id)
		c.id = 0
	}
}
