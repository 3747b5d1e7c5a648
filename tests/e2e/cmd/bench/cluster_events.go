package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// started are the reasons of the events of a pod that starts, its image being there.
var started = []string{"Pulled", "Created", "Started"}

// eventWatcher is a client that watches the events of pods, as kubectl describe lists them.
type eventWatcher struct {
	*feed

	mu   sync.Mutex
	late map[eventOf]time.Duration // from what happened until the watch told of it
	err  error
}

type eventOf struct{ pod, reason string }

func watchEvents(ctx context.Context, client *kubernetes.Clientset) (*eventWatcher, error) {
	events := client.CoreV1().Events("default")
	list, err := events.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	w := &eventWatcher{late: map[eventOf]time.Duration{}}
	w.feed, err = watchFrom(ctx, list.ResourceVersion, events.Watch, w.hear)
	return w, err
}

// hear keeps how late the watch told of an event.
func (w *eventWatcher) hear(now time.Time, told watch.Event) {
	e, is := told.Object.(*v1.Event)
	if is && (told.Type != watch.Added || e.InvolvedObject.Kind != "Pod") {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, err := happened(e, is); err != nil {
		w.err = fmt.Errorf("the watch of events told %v: %w", told.Object, err)
	} else {
		w.late[eventOf{e.InvolvedObject.Name, e.Reason}] = now.Sub(at)
	}
}

// happened is when an event took place: its timestamps have whole seconds, its name has all of the time.
func happened(e *v1.Event, is bool) (time.Time, error) {
	if !is {
		return time.Time{}, fmt.Errorf("that is no event")
	}
	nanos, err := strconv.ParseInt(e.Name[strings.LastIndexByte(e.Name, '.')+1:], 16, 64)
	return time.Unix(0, nanos), err
}

// await waits until all events of the start of all pods were seen, and tells how late each was.
func (w *eventWatcher) await(ctx context.Context, names ...string) (samples, error) {
	var all samples
	err := lab.Eventually(ctx, allPatience, "every pod has the events of its start", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err != nil {
			return w.err
		}
		all = all[:0]
		for _, name := range names {
			for _, reason := range started {
				late, seen := w.late[eventOf{name, reason}]
				if !seen {
					return fmt.Errorf("pod %s has no event %s", name, reason)
				}
				all = append(all, late)
			}
		}
		return nil
	})
	return all, err
}
