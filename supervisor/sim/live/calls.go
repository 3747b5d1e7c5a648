package live

import (
	"context"
	"sync"

	"github.com/troupe-dev/troupe/actors/port"
)

// list reads all objects of a selection, as they are now.
func list(ctx context.Context, api port.API, sel port.Selection) ([]port.APIObject, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var once sync.Once
	got, ended := make(chan port.APIChange, 1), make(chan struct{})
	api.Watch(ctx, sel, func(c port.APIChange) {
		once.Do(func() { got <- c })
	}, func(error) { close(ended) })
	defer func() { cancel(); <-ended }()
	select {
	case c := <-got:
		switch c := c.(type) {
		case port.APIReplaced:
			return c.Objects, nil
		case port.APIBroken:
			return nil, c.Err
		case port.APISet, port.APIDeleted:
		}
		panic("live: a watch began with something else than a list")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
