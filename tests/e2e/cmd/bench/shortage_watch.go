package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/tests/check"
)

// shortageWatcher is a client that hears of evictions, and of the node's condition.
type shortageWatcher struct {
	events, nodes *feed
	node          string
	condition     v1.NodeConditionType

	mu sync.Mutex
	// evicted are the pods of events of evictions, the first first, and when each took place.
	evicted []string
	at      []time.Time
	// shown is when the condition was first seen to be true.
	shown time.Time
	err   error
}

func watchShortage(
	ctx context.Context, client *kubernetes.Clientset, node string, condition v1.NodeConditionType,
) (_ *shortageWatcher, err error) {
	defer check.Return(&err)
	events, nodes := client.CoreV1().Events("default"), client.CoreV1().Nodes()
	ofNode := metav1.ListOptions{FieldSelector: "metadata.name=" + node}
	eventList := check.Must(events.List(ctx, metav1.ListOptions{}))
	nodeList := check.Must(nodes.List(ctx, ofNode))
	w := &shortageWatcher{node: node, condition: condition}
	w.events = check.Must(watchFrom(ctx, eventList.ResourceVersion, events.Watch, w.hear))
	w.nodes, err = watchFrom(ctx, nodeList.ResourceVersion, nodes.Watch, w.hear)
	if err != nil {
		w.events.stop()
		return nil, err
	}
	return w, nil
}

func (w *shortageWatcher) stop() {
	w.events.stop()
	w.nodes.stop()
}

// hear keeps what a watch told.
func (w *shortageWatcher) hear(now time.Time, told watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := told.Object.(type) {
	case *v1.Event:
		if told.Type != watch.Added || o.InvolvedObject.Kind != "Pod" || o.Reason != "Evicted" {
			return
		}
		at, err := happened(o, true)
		if err != nil {
			w.err = fmt.Errorf("an event of an eviction is named %s: %w", o.Name, err)
			return
		}
		if !slices.Contains(w.evicted, o.InvolvedObject.Name) {
			w.evicted, w.at = append(w.evicted, o.InvolvedObject.Name), append(w.at, at)
		}
	case *v1.Node:
		if o.Name != w.node || !w.shown.IsZero() {
			return
		}
		for _, c := range o.Status.Conditions {
			if c.Type == w.condition && c.Status == v1.ConditionTrue {
				w.shown = now
			}
		}
	default:
		w.err = fmt.Errorf("a watch of events or nodes told %v", told.Object)
	}
}

// seen is which pods were evicted so far and when, and when the condition was shown.
func (w *shortageWatcher) seen() (evicted []string, at []time.Time, shown time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.evicted), slices.Clone(w.at), w.shown, w.err
}
