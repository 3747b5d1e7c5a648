package translate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/expansion"
	"github.com/troupe-dev/troupe/actors/port"
)

// Container gives the request that makes one incarnation of a container. The
// devices and CDI names that device plugins assign belong here later.
func Container(n *Node, r *port.CreateContainer) (*runtimeapi.CreateContainerRequest, error) {
	config, err := containerConfig(n, r)
	if err != nil {
		return nil, invalid("CreateContainer", r.Pod, r.Container.Name, err)
	}
	sandbox, err := sandboxConfig(n, r.Pod, r.SandboxAttempt)
	if err != nil {
		return nil, invalid("CreateContainer", r.Pod, r.Container.Name, err)
	}
	if r.LogDirectory != "" {
		sandbox.LogDirectory = r.LogDirectory
	}
	return &runtimeapi.CreateContainerRequest{PodSandboxId: r.SandboxID, Config: config, SandboxConfig: sandbox}, nil
}

func containerConfig(n *Node, r *port.CreateContainer) (*runtimeapi.ContainerConfig, error) {
	pod, c := r.Pod, r.Container
	if err := verifyNonRoot(pod, c, r.Image); err != nil {
		return nil, err
	}
	env, err := containerEnv(n, r)
	if err != nil {
		return nil, err
	}
	annotations, err := containerAnnotations(r)
	if err != nil {
		return nil, err
	}
	security, err := containerSecurity(n, pod, c, r.Image)
	if err != nil {
		return nil, err
	}
	signal, err := stopSignal(c)
	if err != nil {
		return nil, err
	}
	mounts, err := mounts(r.Mounts, security.NamespaceOptions.UsernsOptions)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: r.Attempt},
		Image:       &runtimeapi.ImageSpec{Image: r.ImageRef, UserSpecifiedImage: c.Image},
		Command:     expansion.All(c.Command, env.Lookup),
		Args:        expansion.All(c.Args, env.Lookup),
		WorkingDir:  c.WorkingDir,
		Envs:        keyValues(env),
		Mounts:      mounts,
		Labels:      containerLabels(pod, c.Name),
		Annotations: annotations,
		LogPath:     ContainerLogPath(c.Name, r.Attempt),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  signal,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       containerResources(n, pod, c),
			SecurityContext: security,
		},
	}, nil
}

// stopSignal is lifecycle.stopSignal (KEP-4960); the image's, and then SIGTERM,
// if it is not set.
func stopSignal(c *v1.Container) (runtimeapi.Signal, error) {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_RUNTIME_DEFAULT, nil
	}
	s, ok := runtimeapi.Signal_value[string(*c.Lifecycle.StopSignal)]
	if !ok {
		return 0, fmt.Errorf("lifecycle.stopSignal %q is unknown", *c.Lifecycle.StopSignal)
	}
	return runtimeapi.Signal(s), nil
}

// mounts keeps the order it is given: a mount may lie within an earlier one. In
// a user namespace each is mapped to the pod's IDs.
func mounts(list []port.Mount, users *runtimeapi.UserNamespace) ([]*runtimeapi.Mount, error) {
	var out []*runtimeapi.Mount
	for _, m := range list {
		p, err := propagation(&m)
		if err != nil {
			return nil, err
		}
		var image *runtimeapi.ImageSpec
		if m.Image != "" {
			image = &runtimeapi.ImageSpec{Image: m.Image, UserSpecifiedImage: m.UserImage}
		}
		out = append(out, &runtimeapi.Mount{
			ContainerPath:     m.ContainerPath,
			HostPath:          m.HostPath,
			Image:             image,
			ImageSubPath:      m.ImageSubPath,
			Readonly:          m.ReadOnly,
			Propagation:       p,
			RecursiveReadOnly: m.RecursiveReadOnly,
			UidMappings:       users.GetUids(),
			GidMappings:       users.GetGids(),
		})
	}
	return out, nil
}

// propagation also holds what the CRI demands of a recursively read-only mount.
func propagation(m *port.Mount) (runtimeapi.MountPropagation, error) {
	p := runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	switch m.Propagation {
	case "", v1.MountPropagationNone:
	case v1.MountPropagationHostToContainer:
		p = runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case v1.MountPropagationBidirectional:
		p = runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	default:
		return 0, fmt.Errorf("volume mount %s: mountPropagation %q is unknown", m.Name, m.Propagation)
	}
	if m.RecursiveReadOnly && (!m.ReadOnly || p != runtimeapi.MountPropagation_PROPAGATION_PRIVATE) {
		return 0, fmt.Errorf("volume mount %s: recursiveReadOnly needs readOnly and no mountPropagation", m.Name)
	}
	return p, nil
}
