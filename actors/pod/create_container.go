package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
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
	given := p.placement.Given(a.Name)
	plan, err := containerplan.New(&containerplan.Input{
		Downward: podspec.Downward{
			Pod: p.want, PodIPs: podstatus.ByFamily(a.PodIPs, p.deps.PreferIPv6), HostIPs: p.machine.HostIPs,
			Allocatable: p.machine.Allocatable,
		},
		Container: spec, Objects: p.objects, Paths: p.paths, Images: p.facts.Images, View: &p.facts.View,
		Devices: p.deps.Devices, Plugged: given.Variables(), Claims: p.deps.PrepareClaims != nil,
	})
	if why := p.placement.Lacks(a.Name); why != "" && err == nil {
		err = errors.New(why)
	}
	if err != nil {
		return unable(cannotCreate(p.want, a.Name, err))
	}
	c := creation{rt: p.deps.Runtime, files: p.deps.Files, subPaths: p.deps.SubPaths, plan: plan, podIPs: a.PodIPs}
	pool, room := StartPool, containerplan.SmallExpansion // what is resolved here waits for its slot
	if c.files == nil {
		room = containerplan.MaxExpanded
	}
	if len(plan.EnvFiles) == 0 || c.files == nil {
		c.resolved, err = plan.Resolve(nil, room)
		switch {
		case err == nil:
		case room == containerplan.MaxExpanded || !errors.Is(err, containerplan.ErrTooLong):
			return unable(cannotCreate(p.want, a.Name, err))
		default:
			pool = LargePool
		}
	}
	c.r = port.CreateContainer{
		Pod: p.want, Container: spec, Attempt: a.Attempt, SandboxID: a.SandboxID, SandboxAttempt: a.SandboxAttempt,
		ImageRef: a.ImageRef, SpecHash: a.SpecHash, RuntimeHandler: plan.RuntimeHandler, TargetID: plan.TargetID,
		Groups: p.objects.Groups(p.want), Placement: a.Placement,
		Devices: given.WithCDI(p.facts.Claims.Of(a.Name)).WithNodes(containerplan.Devices(p.want, spec, p.paths)),
	}
	c.preStart = p.deps.PreStart
	// containerd shows a container's image by its registry digest, where there is one. The status
	// has it at once and need not change when the container was inspected.
	c.shownImage = a.ImageRef
	if i := p.images.At(a.Name); i != nil {
		c.r.Image = *i
		if len(i.RepoDigests) > 0 {
			c.shownImage = i.RepoDigests[0]
		}
	}
	return run{deadline: startDeadline, pool: pool, call: c.begin}
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
//	read the files that variables are in ─► own files ─► subPaths of volumes ─► PreStartContainer of each device plugin
//	─► CreateContainer
type creation struct {
	rt       port.Runtime
	files    port.ContainerFiles // nil where containers have none
	subPaths func(ctx context.Context, r port.MountSubPaths, done func(paths []string, err error))
	plan     *containerplan.Plan
	// resolved is nil while files must be read first, and of a container that takes much memory: that is made when it is
	// its turn, beside the actor.
	resolved   *containerplan.Resolved
	podIPs     []string
	r          port.CreateContainer
	shownImage string
	// preStart tells a device plugin; told is how many of them were.
	preStart func(devices.PreStart, func(error))
	told     int
}

func (c creation) begin(ctx context.Context, done func(ActionDone)) {
	if c.resolved != nil {
		c.makeFiles(ctx, done)
		return
	}
	r := port.ReadEnvFiles{Pod: c.r.Pod, Container: c.r.Container.Name, Files: c.plan.EnvFiles}
	c.files.ReadEnvFiles(ctx, r, func(read []*containerplan.EnvFileValues, err error) {
		if err != nil {
			done(ActionDone{Err: err})
			return
		}
		files := containerplan.EnvFilesRead(r.Files, read)
		if c.resolved, err = c.plan.Resolve(files, containerplan.MaxExpanded); err != nil {
			done(ActionDone{Err: cannotCreate(c.r.Pod, r.Container, err)})
			return
		}
		c.makeFiles(ctx, done)
	})
}

func (c creation) makeFiles(ctx context.Context, done func(ActionDone)) {
	c.r.Env, c.r.Mounts = c.resolved.Env, c.resolved.Mounts
	if c.files == nil {
		c.makeSubPaths(ctx, done)
		return
	}
	own := port.MakeFiles{Pod: c.r.Pod, Container: c.r.Container, Attempt: c.r.Attempt, IPs: c.podIPs}
	c.files.MakeFiles(ctx, own, func(own port.MadeFiles, err error) {
		if err != nil {
			done(ActionDone{Err: err})
			return
		}
		c.r.Mounts, c.r.Attempt = append(c.r.Mounts, own.Mounts...), own.Attempt
		c.makeSubPaths(ctx, done)
	})
}

func (c creation) makeSubPaths(ctx context.Context, done func(ActionDone)) {
	parts := c.resolved.SubPaths
	if len(parts) == 0 {
		c.create(ctx, done)
		return
	}
	r := port.MountSubPaths{Pod: c.r.Pod, Container: c.r.Container.Name, Parts: parts}
	c.subPaths(ctx, r, func(paths []string, err error) {
		if err != nil {
			done(ActionDone{Err: subPathError(&r, err)})
			return
		}
		for i := range parts {
			c.r.Mounts[parts[i].Index].HostPath = paths[i]
		}
		c.create(ctx, done)
	})
}

// create tells the plugins of the container's devices, one after the other, and then creates it.
func (c creation) create(ctx context.Context, done func(ActionDone)) {
	if d := c.r.Devices; d != nil && c.preStart != nil && c.told < len(d.PreStart) {
		of := d.PreStart[c.told]
		c.told++
		c.preStart(of, func(err error) {
			if err != nil {
				done(ActionDone{Err: cannotCreate(c.r.Pod, c.r.Container.Name, fmt.Errorf(
					"the device plugin of %s can't prepare devices for the start: %w", of.Resource, err))})
				return
			}
			c.create(ctx, done)
		})
		return
	}
	c.rt.CreateContainer(ctx, c.r, func(id string, err error) {
		done(ActionDone{Result: podplan.Result{NewID: id, Attempt: c.r.Attempt, ImageRef: c.shownImage}, Err: err})
	})
}

// cannotCreate is the error of a container that cannot be created as its pod asks.
func cannotCreate(pod *v1.Pod, container string, err error) error {
	return &port.Error{Kind: port.InvalidConfig, Verb: "CreateContainer",
		Object: pod.Namespace + "/" + pod.Name + "/" + container, Detail: err.Error()}
}

// subPathError is an error that users know from the kubelet, unless the host did not answer.
func subPathError(r *port.MountSubPaths, err error) error {
	if !port.Answered(err) {
		return err
	}
	names := make([]string, len(r.Parts))
	for i := range r.Parts {
		names[i] = fmt.Sprintf("%q", r.Parts[i].Volume)
	}
	slices.Sort(names)
	return cannotCreate(r.Pod, r.Container, fmt.Errorf("failed to prepare subPath for volumeMount %s of container %q: %s",
		strings.Join(slices.Compact(names), ", "), r.Container, port.Detail(err)))
}
