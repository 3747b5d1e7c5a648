package translate

import (
	"fmt"
	"strings"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
)

// Container makes the request for one incarnation of a container. The variables of device plugins are in its Env.
func Container(n *Node, r *port.CreateContainer) (*runtimeapi.CreateContainerRequest, error) {
	config, err := containerConfig(n, r)
	if err != nil {
		return nil, invalid("CreateContainer", r.Pod, r.Container.Name, err)
	}
	sandbox, err := sandboxConfig(n, &port.RunPodSandbox{
		Pod: r.Pod, Attempt: r.SandboxAttempt, RuntimeHandler: r.RuntimeHandler, Groups: r.Groups,
	})
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
	annotations, err := containerAnnotations(r)
	if err != nil {
		return nil, err
	}
	security, err := containerSecurity(n, r)
	if err != nil {
		return nil, err
	}
	// Where containers share processes they see those of the target already (kuberuntime_container_linux.go).
	if r.TargetID != "" && security.NamespaceOptions.Pid == runtimeapi.NamespaceMode_CONTAINER {
		security.NamespaceOptions.Pid, security.NamespaceOptions.TargetId = runtimeapi.NamespaceMode_TARGET, r.TargetID
	}
	signal, err := stopSignal(c)
	if err != nil {
		return nil, err
	}
	recursive := n.can(r.RuntimeHandler, func(f *v1.NodeRuntimeHandlerFeatures) *bool { return f.RecursiveReadOnlyMounts })
	mounts, err := mounts(r.Mounts, security.NamespaceOptions.UsernsOptions, recursive, n.FileLabels)
	if err != nil {
		return nil, err
	}
	resources := containerResources(n, pod, c)
	resources.CpusetCpus, resources.CpusetMems = r.Placement.CPUs, r.Placement.Mems
	plugged := pluggedDevices(r.Devices)
	room := containerplan.Expansion{Left: containerplan.MaxExpanded}
	command, err := room.All(c.Command, r.Env.Lookup)
	if err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	args, err := room.All(c.Args, r.Env.Lookup)
	if err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: r.Attempt},
		Image:       &runtimeapi.ImageSpec{Image: r.ImageRef, UserSpecifiedImage: c.Image},
		Command:     command,
		Args:        args,
		WorkingDir:  c.WorkingDir,
		Envs:        keyValues(r.Env),
		Mounts:      append(plugged.mounts, mounts...),
		Devices:     plugged.devices,
		CDIDevices:  plugged.cdi,
		Labels:      containerLabels(pod, c.Name),
		Annotations: annotations,
		LogPath:     ContainerLogPath(c.Name, r.Attempt),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  signal,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       resources,
			SecurityContext: security,
		},
	}, nil
}

// keyValues converts variables to the CRI. The values are the same memory, which may be megabytes: a request is sent,
// and never changed.
func keyValues(e containerplan.Environment) []*runtimeapi.KeyValue {
	var out []*runtimeapi.KeyValue
	for _, name := range e.Names() {
		v, _ := e.Lookup(name)
		value := unsafe.Slice(unsafe.StringData(v), len(v)) //nolint:gosec // see above
		out = append(out, &runtimeapi.KeyValue{Key: name, Value: value})
	}
	return out
}

// stopSignal is lifecycle.stopSignal (KEP-4960); unset means the image's, and then SIGTERM.
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

// mounts keeps the given order: a mount may lie within an earlier one. In a user namespace each
// is mapped to the pod's IDs. recursive: the runtime supports recursive read-only mounts;
// labels is Node.FileLabels.
func mounts(
	list []containerplan.Mount, users *runtimeapi.UserNamespace, recursive bool, labels func(string) bool,
) ([]*runtimeapi.Mount, error) {
	var out []*runtimeapi.Mount
	for _, m := range list {
		p, err := propagation(&m)
		if err != nil {
			return nil, err
		}
		all, err := recursiveReadOnly(&m, p, recursive)
		if err != nil { // in a kubelet's words
			return nil, fmt.Errorf("failed to resolve recursive read-only mode: %w", err)
		}
		var image *runtimeapi.ImageSpec
		if m.Image != "" {
			image = &runtimeapi.ImageSpec{Image: m.Image, UserSpecifiedImage: m.UserImage}
		}
		out = append(out, &runtimeapi.Mount{
			ContainerPath:     absolute(m.ContainerPath),
			HostPath:          m.HostPath,
			Image:             image,
			ImageSubPath:      m.ImageSubPath,
			Readonly:          m.ReadOnly,
			Propagation:       p,
			RecursiveReadOnly: all,
			SelinuxRelabel:    m.Relabel && labels != nil && labels(m.HostPath),
			UidMappings:       users.GetUids(),
			GidMappings:       users.GetGids(),
		})
	}
	return out, nil
}

// absolute is a path in a container: one that is relative begins at its root (core/v1 VolumeMount.mountPath).
func absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/" + path
}

func propagation(m *containerplan.Mount) (runtimeapi.MountPropagation, error) {
	switch m.Propagation {
	case "", v1.MountPropagationNone:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	case v1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case v1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	default:
		return 0, fmt.Errorf("volume mount %s: mountPropagation %q is unknown", m.Name, m.Propagation)
	}
}

// recursiveReadOnly reports whether mounts below a mount are read-only too (KEP-3857), and checks
// the CRI's conditions for that.
func recursiveReadOnly(m *containerplan.Mount, p runtimeapi.MountPropagation, supported bool) (bool, error) {
	switch m.RecursiveReadOnly {
	case "", v1.RecursiveReadOnlyDisabled:
		return false, nil
	case v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled:
	default:
		return false, fmt.Errorf("volume mount %s: recursiveReadOnly %q is unknown", m.Name, m.RecursiveReadOnly)
	}
	switch {
	case !m.ReadOnly:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", m.Name)
	case p != runtimeapi.MountPropagation_PROPAGATION_PRIVATE:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q",
			m.Name, m.Propagation)
	case !supported && m.RecursiveReadOnly == v1.RecursiveReadOnlyEnabled:
		return false,
			fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name)
	}
	return supported, nil
}
