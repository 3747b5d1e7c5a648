package pod

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerenv"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ = performs(func(a podplan.CreateContainer) effect { return createContainer{a} })

type createContainer struct{ podplan.CreateContainer }

func (createContainer) kind() string { return "CreateContainer" }

func (a createContainer) begin(p *pod) run {
	spec, _ := podspec.Find(&p.want.Spec, a.Name)
	if spec == nil {
		panic("the plan creates a container that the spec does not have: " + a.Name)
	}
	c, err := a.creation(p, spec)
	if err != nil {
		return unable(err)
	}
	return run{deadline: startDeadline, pool: StartPool, call: c.begin}
}

func (a createContainer) creation(p *pod, spec *v1.Container) (creation, error) {
	c := creation{rt: p.deps.Runtime, files: p.deps.Files, subPaths: p.deps.SubPaths, r: port.CreateContainer{
		Pod: p.want, Container: spec, Attempt: a.Attempt, SandboxID: a.SandboxID, SandboxAttempt: a.SandboxAttempt,
		ImageRef: a.ImageRef, SpecHash: a.SpecHash,
		PodIPs: a.PodIPs, HostIPs: p.deps.HostIPs, Objects: p.objects,
	}}
	err := p.checkEnv(spec)
	if err == nil {
		c.r.TargetID, err = a.target(p)
	}
	if err == nil {
		c.mounts, err = p.mounts(spec, a.PodIPs)
	}
	if err == nil {
		c.envFiles, err = p.envFiles(spec)
	}
	// containerd shows a container's image by its registry digest, where there is one. The status
	// has it at once and need not change when the container was inspected.
	c.shownImage = a.ImageRef
	if i := p.images.At(a.Name); i != nil {
		c.r.Image = *i
		if len(i.RepoDigests) > 0 {
			c.shownImage = i.RepoDigests[0]
		}
	}
	return c, err
}

// target is the ID of the container whose processes an ephemeral container shares
// (targetContainerName). It is empty for all others.
func (a createContainer) target(p *pod) (string, error) {
	for i := range p.want.Spec.EphemeralContainers {
		e := &p.want.Spec.EphemeralContainers[i]
		if e.Name != a.Name || e.TargetContainerName == "" {
			continue
		}
		if c, ok := p.facts.View.Newest(e.TargetContainerName); ok {
			return c.ID, nil
		}
		return "", &port.Error{Kind: port.InvalidConfig, Verb: "CreateContainer", Object: p.name() + "/" + a.Name,
			Detail: fmt.Sprintf("unable to find target container %s", e.TargetContainerName)}
	}
	return "", nil
}

func (a createContainer) succeeded(p *pod, ctx *kernel.Context[Message]) {
	p.event(ctx, a.Name, false, "Created", "Container created")
}

func (a createContainer) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	p.event(ctx, a.Name, true, "Failed", "Error: "+f.detail)
}

// creation makes one incarnation of a container and what it needs of the host first. It uses no
// state of the actor, so it may run on any goroutine.
//
//	read the files that variables are in ─► mounts ─► own files ─► parts of volumes ─► CreateContainer
type creation struct {
	rt         port.Runtime
	files      port.ContainerFiles // nil where containers have none
	subPaths   func(ctx context.Context, r port.MountSubPaths, done func(paths []string, err error))
	mounts     *mountPlan
	envFiles   port.ReadEnvFiles
	r          port.CreateContainer
	shownImage string
}

func (c creation) begin(ctx context.Context, done func(ActionDone)) {
	if len(c.envFiles.Files) == 0 || c.files == nil {
		c.settle(ctx, done)
		return
	}
	c.files.ReadEnvFiles(ctx, c.envFiles, func(data [][]byte, err error) {
		if err != nil {
			done(ActionDone{Err: err})
			return
		}
		c.r.EnvFiles = make(containerenv.Files, len(data))
		for i, f := range c.envFiles.Files {
			c.r.EnvFiles[containerenv.File{Volume: f.Volume, Path: f.Path}] = data[i]
		}
		c.settle(ctx, done)
	})
}

func (c creation) settle(ctx context.Context, done func(ActionDone)) {
	mounts, parts, err := c.mounts.settle(c.r.EnvFiles)
	if err != nil {
		done(ActionDone{Err: err})
		return
	}
	c.r.Mounts = mounts
	if c.files == nil {
		c.mount(ctx, parts, done)
		return
	}
	own := port.MakeFiles{Pod: c.r.Pod, Container: c.r.Container, Attempt: c.r.Attempt, IPs: c.r.PodIPs}
	c.files.MakeFiles(ctx, own, func(own []port.Mount, err error) {
		if err != nil {
			done(ActionDone{Err: err})
			return
		}
		c.r.Mounts = append(c.r.Mounts, own...)
		c.mount(ctx, parts, done)
	})
}

func (c creation) mount(ctx context.Context, parts port.MountSubPaths, done func(ActionDone)) {
	if len(parts.Parts) == 0 {
		c.create(ctx, done)
		return
	}
	c.subPaths(ctx, parts, func(paths []string, err error) {
		if err != nil {
			done(ActionDone{Err: subPathError(&parts, err)})
			return
		}
		for i := range parts.Parts {
			c.r.Mounts[parts.Parts[i].Index].HostPath = paths[i]
		}
		c.create(ctx, done)
	})
}

func (c creation) create(ctx context.Context, done func(ActionDone)) {
	c.rt.CreateContainer(ctx, c.r, func(id string, err error) {
		done(ActionDone{Result: podplan.Result{NewID: id, ImageRef: c.shownImage}, Err: err})
	})
}
