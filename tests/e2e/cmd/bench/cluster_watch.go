package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// watcher is the client that all times of a cluster are taken by: what it has seen of each pod, and
// when it heard of it.
type watcher struct {
	*feed

	mu   sync.Mutex
	pods map[string]*history
	err  error
}

// history is what was seen of one pod, the oldest first. It is never changed, only added to.
type history struct{ versions []version }

type version struct {
	at   time.Time
	pod  *v1.Pod
	gone bool
}

func watchPods(ctx context.Context, client *kubernetes.Clientset) (*watcher, error) {
	pods := client.CoreV1().Pods("default")
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	w := &watcher{pods: map[string]*history{}}
	w.feed, err = watchFrom(ctx, list.ResourceVersion, pods.Watch, w.hear)
	return w, err
}

// hear keeps what the watch told.
func (w *watcher) hear(now time.Time, e watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, is := e.Object.(*v1.Pod)
	if !is {
		w.err = fmt.Errorf("the watch of pods told %v", e.Object)
		return
	}
	h := w.pods[p.Name]
	if h == nil {
		h = &history{}
		w.pods[p.Name] = h
	}
	h.versions = append(h.versions, version{now, p, e.Type == watch.Deleted})
}

// drop forgets pods that are gone, so that others of their name can come.
func (w *watcher) drop(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		delete(w.pods, name)
	}
}

// there are those pods that were not seen gone.
func (w *watcher) there(names ...string) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if h := w.pods[name]; h != nil {
			if _, gone := h.goneAt(); gone {
				continue
			}
		}
		all = append(all, name)
	}
	return all
}

// await waits until something was seen of all pods, and tells when it was of each.
func (w *watcher) await(ctx context.Context, what string, when func(*history) (time.Time, bool), names ...string) ([]time.Time, error) {
	at := make([]time.Time, len(names))
	next := 0
	err := lab.Eventually(ctx, allPatience, "every pod "+what, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err != nil {
			return w.err
		}
		for ; next < len(names); next++ {
			h := w.pods[names[next]]
			if h == nil {
				return fmt.Errorf("pod %s was not seen", names[next])
			}
			t, ok := when(h)
			if !ok {
				last := h.versions[len(h.versions)-1].pod
				return fmt.Errorf("pod %s (%d more to look at) is %s: %v", names[next], len(names)-next-1, last.Status.Phase, last.Status.ContainerStatuses)
			}
			at[next] = t
		}
		return nil
	})
	return at, err
}

// since gives what was seen of a pod after a time.
func (w *watcher) since(t time.Time, name string) []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*v1.Pod
	if h := w.pods[name]; h != nil {
		for _, v := range h.versions {
			if v.at.After(t) {
				all = append(all, v.pod)
			}
		}
	}
	return all
}

// first is when the first version was seen that ok holds for.
func (h *history) first(ok func(version) bool) (time.Time, bool) {
	for _, v := range h.versions {
		if ok(v) {
			return v.at, true
		}
	}
	return time.Time{}, false
}

func (h *history) readyAt() (time.Time, bool) {
	return h.first(func(v version) bool { return podReady(v.pod) })
}

func (h *history) goneAt() (time.Time, bool) {
	return h.first(func(v version) bool { return v.gone })
}

// restartedAt is when a restart was first shown together with a container that runs.
func (h *history) restartedAt() (time.Time, bool) {
	return h.first(func(v version) bool {
		for _, c := range v.pod.Status.ContainerStatuses {
			if c.RestartCount < 1 || c.State.Running == nil {
				return false
			}
		}
		return len(v.pod.Status.ContainerStatuses) > 0
	})
}

func podReady(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
