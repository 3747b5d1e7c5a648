package lab

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/troupe-dev/troupe/tests/check"
)

// lookAnyway is how long EventuallyWatched waits for a change before it looks all the same: a condition may also be about what
// the watch does not show, or the watch may have ended.
const lookAnyway = pollLate

// EventuallyWatched is [Eventually] for what the apiserver shows: condition is looked at after each change that a watch tells
// of, and so at once, and not again and again between changes. begin begins the watch; one that ends is begun again, and where
// there is none the condition is looked at now and then.
func EventuallyWatched(
	ctx context.Context, d time.Duration, what string, begin func(context.Context) (watch.Interface, error), condition func() error,
) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var w watch.Interface
	defer func() {
		if w != nil {
			w.Stop()
		}
	}()
	for {
		last := check.Try(condition)
		if last == nil {
			return nil
		}
		if w == nil {
			if next, err := begin(ctx); err == nil {
				w = next
			}
		}
		open := awaitChange(ctx, w)
		if ctx.Err() != nil {
			return notWithin(what, begun, last)
		}
		if !open && w != nil {
			w.Stop()
			w = nil
		}
	}
}

// awaitChange waits for what a watch tells, and takes all that it has told. It returns without it when it is time to look
// anyway, and says whether the watch goes on.
func awaitChange(ctx context.Context, w watch.Interface) (open bool) {
	anyway := time.NewTimer(lookAnyway)
	defer anyway.Stop()
	var changes <-chan watch.Event // of none, nothing comes
	if w != nil {
		changes = w.ResultChan()
	}
	select {
	case <-ctx.Done():
		return true
	case <-anyway.C:
		return true
	case _, open = <-changes:
	}
	for open {
		select {
		case _, open = <-changes:
		default:
			return true
		}
	}
	// The next one may end as soon as it begins.
	select {
	case <-ctx.Done():
	case <-anyway.C:
	}
	return false
}
