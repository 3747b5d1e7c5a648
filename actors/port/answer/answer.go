// Package answer lets code outside of actors wait for the answer to a call of a port.
package answer

import (
	"context"
	"fmt"
)

// Of makes a call, and waits until it is done or ctx ends, because a port may never answer.
func Of[T any](ctx context.Context, call func(done func(T, error))) (T, error) {
	type result struct {
		value T
		err   error
	}
	got := make(chan result, 1)
	call(func(value T, err error) { got <- result{value, err} })
	select {
	case r := <-got:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("there is no answer: %w", context.Cause(ctx))
	}
}
