package kernel

import (
	"testing"
	"unsafe"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestCall: the result of the last call begun is taken, once; no other is.
func TestCall(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin []EffectID
		take  []EffectID
		want  []bool
		busy  bool
	}{
		{"none", nil, []EffectID{0, 1}, []bool{false, false}, false},
		{"once", []EffectID{1}, []EffectID{1, 1}, []bool{true, false}, false},
		{"another", []EffectID{1}, []EffectID{2}, []bool{false}, true},
		{"begun again", []EffectID{1, 2}, []EffectID{1, 2}, []bool{false, true}, false},
	} {
		var call Call
		for _, id := range c.begin {
			call.Begin(id)
		}
		var got []bool
		for _, id := range c.take {
			got = append(got, call.Take(id))
		}
		check.Same(t, got, c.want, "%s: taken", c.name)
		check.Equal(t, call.Busy(), c.busy, "%s: busy", c.name)
	}
	if size := unsafe.Sizeof(Call{}); size > 8 {
		t.Errorf("a Call takes %d bytes", size)
	}
}

// TestCallCancel: the effect is given up, and its result is not awaited any more.
func TestCallCancel(t *testing.T) {
	c := newCalls(t)
	r := c.root("a")
	c.b.took()
	var call Call
	r.Tell(func(ctx *Context[do]) {
		call.Cancel(ctx) // of nothing
		call.Begin(ctx.Do(c.effect("1", "x")))
	})
	c.b.Settle()
	id := c.live["1"].id
	r.Tell(func(ctx *Context[do]) { call.Cancel(ctx) })
	c.b.Settle()
	if c.live["1"].ctx.Err() == nil {
		t.Error("the effect goes on")
	}
	check.Equal(t, call.Busy(), false, "busy")
	check.Equal(t, call.Take(id), false, "taken")
}
