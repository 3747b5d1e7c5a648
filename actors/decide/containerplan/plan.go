package containerplan

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Input is what a plan is made from.
type Input struct {
	podspec.Downward
	Container *v1.Container
	Objects   podobjects.Set
	// Paths are the paths on the host of the mounted volumes, by name; empty for an image.
	Paths smallmap.Map[string, string]
	// Images holds the images of volumes, by imagepull.VolumeImage.
	Images smallmap.Map[string, imagepull.Status]
	// View is what the runtime has of the pod.
	View *observed.Pod
	// Devices are those of device plugins on this node, nil for none.
	Devices *devicestate.State
	// Plugged are the variables that device plugins give to the container.
	Plugged []devices.Variable
	// Claims: ResourceClaims can be prepared on this node.
	Claims bool
}

// Plan is what one container is created with, before the files of its variables are read. It holds
// only values, so any goroutine may use it.
type Plan struct {
	// RuntimeHandler is that of the pod's RuntimeClass, empty for the default.
	RuntimeHandler string
	// TargetID is the container whose processes an ephemeral container shares; empty for none.
	TargetID string
	// EnvFiles are to be read before Resolve.
	EnvFiles []EnvFile

	from      podspec.Downward
	objects   podobjects.Set
	container *v1.Container
	mounts    []Mount // by index of the container's volumeMounts
	volume    func(name string) *v1.Volume
	plugged   []devices.Variable
}

// New plans a container. It fails for one that asks for devices that this node can't give: a kubelet admitted its pod,
// and the container has ended since.
func New(in *Input) (*Plan, error) {
	p := &Plan{from: in.Downward, objects: in.Objects, container: in.Container, plugged: in.Plugged}
	why := in.Devices.MissingIn(in.Container)
	if why == "" && !in.Claims {
		why = devicestate.UnclaimedIn(in.Pod, in.Container)
	}
	if why != "" {
		return nil, errors.New(why)
	}
	var err error
	if p.TargetID, err = target(in); err != nil {
		return nil, err
	}
	if err := badDevice(in); err != nil {
		return nil, err
	}
	if p.mounts, err = mounts(in); err != nil {
		return nil, err
	}
	if p.EnvFiles, err = EnvFilesOf(in.Pod, in.Container, in.Paths); err != nil {
		return nil, err
	}
	// If the RuntimeClass was deleted meanwhile, the sandbox still has the handler.
	if p.RuntimeHandler, err = in.Objects.RuntimeHandler(in.Pod); err != nil && needsHandler(in) {
		return nil, err
	}
	return p, nil
}

// target is the ID of the container whose processes an ephemeral container shares
// (targetContainerName). It is empty for all others.
func target(in *Input) (string, error) {
	for i := range in.Pod.Spec.EphemeralContainers {
		e := &in.Pod.Spec.EphemeralContainers[i]
		if e.Name != in.Container.Name || e.TargetContainerName == "" {
			continue
		}
		if c, ok := in.View.Newest(e.TargetContainerName); ok {
			return c.ID, nil
		}
		return "", fmt.Errorf("unable to find target container %s", e.TargetContainerName)
	}
	return "", nil
}

// needsHandler reports whether a container depends on features of its runtime handler.
func needsHandler(in *Input) bool {
	return podspec.OwnUsers(&in.Pod.Spec) ||
		slices.ContainsFunc(in.Container.VolumeMounts, func(m v1.VolumeMount) bool {
			return m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != ""
		})
}

// Resolved is the rest of what a container is created with.
type Resolved struct {
	Env    Environment
	Mounts []Mount
	// SubPaths are to be made first. Their paths become the HostPath of their mounts.
	SubPaths []SubPath
}

// Resolve resolves the variables of the container, and with them its mounts. files is the content of
// EnvFiles. If the variables, the command and its arguments together take more than room, the error is
// ErrTooLong; more than MaxExpanded no program can be started with.
func (p *Plan) Resolve(files EnvFiles, room int) (*Resolved, error) {
	left := Expansion{Left: room}
	env, err := EnvironmentOf(&p.from, p.objects, files, p.container, &left)
	if err != nil {
		return nil, err
	}
	// They are made where they are needed. Here they have to fit.
	for _, list := range [...]struct {
		name  string
		words []string
	}{{"command", p.container.Command}, {"args", p.container.Args}} {
		if _, err := left.All(list.words, env.Lookup); err != nil {
			return nil, fmt.Errorf("%s: %w", list.name, err)
		}
	}
	if len(p.plugged) > 0 {
		env.With(p.plugged) // only now: the values of the container's own do not see them
	}
	r := &Resolved{Env: env, Mounts: slices.Clone(p.mounts)}
	for i := range r.Mounts {
		m := &r.Mounts[i]
		sub, err := subPath(&p.container.VolumeMounts[i], env)
		switch {
		case err != nil:
			return nil, err
		case sub == "":
		case m.Image != "":
			m.ImageSubPath = sub // the runtime looks it up
		default:
			r.SubPaths = append(r.SubPaths, SubPath{Index: i, Volume: p.dirOf(m.Name), Root: m.HostPath, SubPath: sub})
		}
	}
	return r, nil
}
