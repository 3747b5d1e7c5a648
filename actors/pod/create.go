package pod

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/containerenv"
	"github.com/troupe-dev/troupe/actors/port"
)

// creation makes one incarnation of a container, with what it needs of the host
// first. It holds nothing of the actor.
//
//	read the files that variables are in ─► mounts ─► own files ─► parts of volumes ─► CreateContainer
type creation struct {
	rt       port.Runtime
	files    port.ContainerFiles // nil where containers have none
	subPaths func(ctx context.Context, r port.MountSubPaths, done func(paths []string, err error))
	wish     *wished
	envFiles port.ReadEnvFiles
	r        port.CreateContainer
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
	mounts, parts, err := c.wish.settle(c.r.EnvFiles)
	if err != nil {
		done(ActionDone{Err: err})
		return
	}
	c.r.Mounts = mounts
	if c.files == nil {
		c.mount(ctx, parts, done)
		return
	}
	c.files.MakeFiles(ctx, port.MakeFiles{Pod: c.r.Pod, Container: c.r.Container, Attempt: c.r.Attempt, IPs: c.r.PodIPs}, func(own []port.Mount, err error) {
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
		c.rt.CreateContainer(ctx, c.r, newID(done))
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
		c.rt.CreateContainer(ctx, c.r, newID(done))
	})
}
