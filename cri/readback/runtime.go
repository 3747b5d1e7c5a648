package readback

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/cri/labels"
)

// Runtime groups lists by pod, in the order of observed.Runtime. A pod of which a record can't be read is among the
// Unread.
func Runtime(
	ctx context.Context, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container,
) observed.Runtime {
	return group(ctx, sandboxes, containers, ListedSandbox, ListedContainer)
}

func group(
	ctx context.Context, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container,
	sandbox func(*runtimeapi.PodSandbox) (observed.Sandbox, bool),
	container func(*runtimeapi.Container) (observed.Container, bool),
) observed.Runtime {
	byUID := make(map[types.UID]*observed.RuntimePod, len(sandboxes))
	pod := func(ref observed.PodRef) *observed.RuntimePod {
		p, ok := byUID[ref.UID]
		if !ok {
			p = &observed.RuntimePod{Ref: ref}
			byUID[ref.UID] = p
		}
		return p
	}
	unread := map[types.UID]string{}
	bad := func(kind, id, uid string, why error) {
		if uid != "" { // else it is of another client
			unread[types.UID(uid)] = fmt.Sprintf("%s %s: %v", kind, id, why)
		}
	}
	for _, s := range sandboxes {
		got, ok, err := read(ctx, s, sandbox)
		if err != nil {
			bad("sandbox", s.GetId(), s.GetLabels()[labels.PodUID], err)
		} else if ok {
			p := pod(got.Pod)
			p.Sandboxes = append(p.Sandboxes, got)
		}
	}
	for _, c := range containers {
		got, ok, err := read(ctx, c, container)
		if err != nil {
			bad("container", c.GetId(), c.GetLabels()[labels.PodUID], err)
		} else if ok {
			p := pod(got.Pod)
			p.Containers = append(p.Containers, got)
		}
	}
	out := observed.Runtime{Pods: make([]observed.RuntimePod, 0, len(byUID))}
	for uid, p := range byUID {
		if _, is := unread[uid]; !is {
			p.Sort()
			out.Pods = append(out.Pods, *p)
		}
	}
	slices.SortFunc(out.Pods, func(a, b observed.RuntimePod) int { return cmp.Compare(a.Ref.UID, b.Ref.UID) })
	for _, uid := range slices.Sorted(maps.Keys(unread)) {
		out.Unread = append(out.Unread, observed.Unread{UID: uid, Why: unread[uid]})
	}
	return out
}

// read converts one record of a list. A panic is an error of that record alone.
func read[R, T any](ctx context.Context, record R, convert func(R) (T, bool)) (got T, ok bool, err error) {
	got, err = rescue.Try(ctx, func() (converted T, err error) {
		converted, ok = convert(record)
		return converted, nil
	})
	return got, ok, err
}
