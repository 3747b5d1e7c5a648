package differ

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// events are those of the pods of a namespace. They are told of by an informer.
type events struct {
	mu   sync.Mutex
	of   map[types.UID]map[string]*v1.Event // by the pod's UID, and their names
	last map[types.UID]time.Time
}

func (e *events) OnAdd(obj any, _ bool) { e.see(obj) }
func (e *events) OnUpdate(_, obj any)   { e.see(obj) }
func (e *events) OnDelete(any)          {}

func (e *events) see(obj any) {
	of, is := obj.(*v1.Event)
	if !is {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of, e.last = map[types.UID]map[string]*v1.Event{}, map[types.UID]time.Time{}
	}
	uid := of.InvolvedObject.UID
	if e.of[uid] == nil {
		e.of[uid] = map[string]*v1.Event{}
	}
	e.of[uid][of.Name], e.last[uid] = of, time.Now()
}

// about are the events of a pod that is gone, when no more come.
func (e *events) about(ctx context.Context, p *v1.Pod, n normal) keys {
	begin := time.Now()
	// A pod of which more come than end has shown them all by then.
	_ = lab.Eventually(ctx, 10*silence, "no more events come", func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if last := e.last[p.UID]; time.Since(begin) >= silence && time.Since(last) >= silence {
			return nil
		}
		return errors.New("some may come")
	})
	e.mu.Lock()
	of := maps.Clone(e.of[p.UID])
	e.mu.Unlock()
	k := keys{}
	for _, one := range of {
		path := strings.Join([]string{"event", one.Type, one.Reason, one.InvolvedObject.FieldPath, one.Message}, "/")
		k[n.text(path)] = one.Source.Component
	}
	return k
}
