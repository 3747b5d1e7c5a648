package simcri

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// Version implements port.Runtime.
func (r *Runtime) Version(ctx context.Context, done func(port.RuntimeVersion, error)) {
	r.begin(ctx, Call{Method: Version},
		func(err error) { done(port.RuntimeVersion{}, err) }, nil,
		func(o *op) {
			o.Reply(func() {
				done(port.RuntimeVersion{Name: "simcri", Version: "1.0.0", APIVersion: "v1"}, nil)
			})
		})
}

// Status implements port.Runtime.
func (r *Runtime) Status(ctx context.Context, done func(port.RuntimeStatus, error)) {
	r.begin(ctx, Call{Method: Status},
		func(err error) { done(port.RuntimeStatus{}, err) }, nil,
		func(o *op) {
			o.Reply(func() {
				done(port.RuntimeStatus{Conditions: []port.RuntimeCondition{
					{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true},
				}}, nil)
			})
		})
}

// List implements port.Runtime.
func (r *Runtime) List(ctx context.Context, uid string, done func(observed.Runtime, error)) {
	r.begin(ctx, Call{Method: List, Object: uid, Pod: observed.PodRef{UID: types.UID(uid)}},
		func(err error) { done(observed.Runtime{}, err) }, nil,
		func(o *op) {
			seen := r.observe(types.UID(uid), false)
			o.Reply(func() { done(seen, nil) })
		})
}

// observe lists the runtime's state, of one pod if uid is not empty, in the order of
// observed.Runtime.
func (r *Runtime) observe(uid types.UID, detailed bool) observed.Runtime {
	var seen observed.Runtime
	for _, p := range r.sortedPods() {
		if uid != "" && p.ref.UID != uid {
			continue
		}
		of := observed.RuntimePod{Ref: p.ref}
		for s := p.sandboxes; s != nil; s = s.next {
			if s.state != sandboxMaking {
				of.Sandboxes = append(of.Sandboxes, s.observe(r, detailed))
			}
		}
		for c := p.containers; c != nil; c = c.next {
			if c.state != containerMaking {
				of.Containers = append(of.Containers, c.observe(detailed))
			}
		}
		if of.Sandboxes == nil && of.Containers == nil {
			continue // all of it is being made
		}
		of.Sort()
		seen.Pods = append(seen.Pods, of)
	}
	return seen
}

func (r *Runtime) sortedPods() []*pod {
	all := make([]*pod, 0, len(r.pods))
	for _, p := range r.pods {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pod) int {
		return strings.Compare(string(podKey(a.ref)), string(podKey(b.ref)))
	})
	return all
}
