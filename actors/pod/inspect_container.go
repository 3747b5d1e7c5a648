package pod

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerlogs"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ = performs(func(a podplan.InspectContainer) effect { return inspectContainer{InspectContainer: a} })

type inspectContainer struct {
	podplan.InspectContainer
	quiet
}

func (inspectContainer) kind() string { return "ContainerStatus" }

func (a inspectContainer) begin(p *pod) run {
	rt, files, of := p.deps.Runtime, p.deps.Files, p.want
	pool, keeps := "", TeardownPool // the step between the end of a container and that of its sandbox
	if c := p.facts.Container(a.ID); c != nil && c.State == observed.ContainerRunning && c.StartedAt.IsZero() &&
		p.facts.Found(a.ID) {
		pool, keeps = LookPool, ""
	}
	spec, _ := podspec.Find(&of.Spec, a.Name)
	return run{deadline: inspectDeadline, pool: pool, keeps: keeps,
		call: func(ctx context.Context, done func(ActionDone)) {
			rt.ContainerStatus(ctx, a.ID, func(c observed.Container, err error) {
				d := ActionDone{Result: podplan.Result{Container: &c}, Err: err}
				if err != nil || spec == nil || c.State != observed.ContainerExited {
					done(d)
					return
				}
				terminationMessage(ctx, files, of, spec, &c, func() { done(d) })
			})
		}}
}

// terminationMessage adds a container's termination message to what the runtime reports.
func terminationMessage(
	ctx context.Context, files port.ContainerFiles, of *v1.Pod, spec *v1.Container, c *observed.Container, done func(),
) {
	if files == nil {
		done()
		return
	}
	r := port.TerminationMessage{
		Pod: of, Container: spec.Name, Attempt: c.Attempt, File: c.MessageFile,
		FromLog: containerlogs.MessageFromLog(spec.TerminationMessagePolicy, c),
	}
	files.TerminationMessage(ctx, r, func(said string, err error) {
		if err != nil {
			said = "Error on reading termination message: " + err.Error()
		}
		c.Message = containerlogs.TerminationMessage(c.Message, said)
		done()
	})
}

func (a inspectContainer) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	p.unseen(ctx, a.kind(), a.Name, f)
}
