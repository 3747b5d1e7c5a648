package pod

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ = performs(func(a podplan.LookResources) effect { return lookResources{LookResources: a} })

type lookResources struct {
	podplan.LookResources
	quiet
	unreported
}

// unreported is an effect of a resize: its failure is in the status of the pod (resizeEvents).
type unreported struct{}

func (unreported) failed(*pod, *kernel.Context[Message], failed) {}

func (lookResources) kind() string { return "LookResources" }

func (a lookResources) begin(p *pod) run {
	rt, cgroups, limits, pod := p.deps.Runtime, p.deps.Cgroups, p.deps.Limits, p.want
	return run{deadline: inspectDeadline, call: func(ctx context.Context, done func(ActionDone)) {
		look(ctx, rt, cgroups, &limits, pod, a.IDs, done)
	}}
}

// look reads the pod's cgroup, and then the memory limits of one container after another.
func look(
	ctx context.Context, rt port.Runtime, cgroups port.Cgroups, limits *podcgroup.Settings, pod *v1.Pod, ids []string,
	done func(ActionDone),
) {
	seen := podresize.Seen{Containers: map[string]int64{}}
	var next func(i int)
	next = func(i int) {
		if i == len(ids) {
			done(ActionDone{Result: podplan.Result{Seen: &seen}})
			return
		}
		rt.ContainerMemory(ctx, ids[i], func(bytes int64, err error) {
			if err != nil {
				done(ActionDone{Err: err})
				return
			}
			seen.Containers[ids[i]] = bytes
			next(i + 1)
		})
	}
	if cgroups == nil {
		next(0)
		return
	}
	name, err := limits.Pod(pod)
	if err != nil {
		done(ActionDone{Err: &port.Error{Kind: port.InvalidConfig, Verb: "GetCgroup", Object: pod.Name, Detail: err.Error()}})
		return
	}
	cgroups.Get(ctx, name, func(has observed.Resources, memory int64, err error) {
		if err != nil {
			done(ActionDone{Err: err})
			return
		}
		seen.Pod, seen.Usage = has, memory
		next(0)
	})
}
