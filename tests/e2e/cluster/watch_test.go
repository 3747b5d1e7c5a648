package cluster

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// watcher is the client of a kind of objects.
type watcher interface {
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// awaitObjects looks at a condition whenever one of the objects changes that selector, of fields, selects. It is what await is
// for conditions about anything.
func (b *bed) awaitObjects(t *testing.T, what string, kind watcher, selector string, condition func() error) {
	t.Helper()
	begin := func(ctx context.Context) (watch.Interface, error) {
		return kind.Watch(ctx, metav1.ListOptions{FieldSelector: selector})
	}
	check.Fatal(t, lab.EventuallyWatched(t.Context(), patience, what, begin, condition))
}

// only selects the object of a name.
func only(name string) string { return "metadata.name=" + name }
