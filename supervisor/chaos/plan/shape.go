package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// Shape is what a pod is made of. Its options, each key=value and most of them more than once:
//
//	main=app init=setup sidecar=proxy   containers, in this order
//	restart=Always|OnFailure|Never      the pod's restart policy; Always if it is not given
//	grace=5                             its termination grace period, in seconds; 5 if it is not given
//	deadline=60                         its active deadline, in seconds
//	disk=1Gi                            the most that its first main container may use of disk
//	gpus=2                              devices of its first main container, see GPU
//	cpus=1                              CPUs of each of its containers alone
//	volume=data                         an emptyDir in its first main container
//	claim=data                          a claim in its first main container, of a volume of Driver
//	private=app                         a container is made from PrivateImage, which needs a credential
//	secret=yes                          it has the pull secret for that
//	pull=Always|IfNotPresent|Never      the pull policy of its containers; IfNotPresent if it is not given
//	ready=app live=app startup=app      probes of a container over HTTP, every second
//	prestop=app                         a preStop hook of a container, of one second
//	stop-command=app start-command=app  a preStop or postStart hook of a container, which runs a command
//	app.run-for=2s                      what a container does, see simcri.Keys
//	replicas=3                          how many there are of a workload
type Shape struct {
	name string
	args []Arg
	Pod  *v1.Pod
	// Replicas is 0 for a pod that is no workload.
	Replicas int
}

// podOptions are the keys of Shape, for errors.
const podOptions = "main=, init=, sidecar=, restart=, grace=, deadline=, disk=, gpus=, cpus=, volume=, claim=, " +
	"private=, secret=, pull=, ready=, live=, startup=, prestop=, stop-command=, start-command=, replicas="

// GPU is the resource of the devices of a case.
const GPU v1.ResourceName = "example.com/gpu"

// memoryOfOwn is the memory of containers with exclusive CPUs, in bytes: they need some to be Guaranteed.
const memoryOfOwn = 1 << 20

// limit gives a container a resource.
func limit(c *v1.Container, name v1.ResourceName, most, asks int64) {
	if c.Resources.Limits == nil {
		c.Resources.Limits, c.Resources.Requests = v1.ResourceList{}, v1.ResourceList{}
	}
	c.Resources.Limits[name] = *resource.NewQuantity(most, resource.BinarySI)
	c.Resources.Requests[name] = *resource.NewQuantity(asks, resource.BinarySI)
}

// port is what the probes of a container ask.
const port = 8080

// ShapeOf gives the pod that an operation makes.
func ShapeOf(o *Op) (*Shape, error) {
	grace := int64(5)
	s := &Shape{name: o.Role.Pod, args: o.Args, Pod: &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: o.Role.Pod, Annotations: map[string]string{}},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &grace},
	}}
	if why := validation.IsDNS1123Label(s.name); len(why) > 0 {
		return nil, fmt.Errorf("pod name %q: %s", s.name, strings.Join(why, ", "))
	}
	if err := s.containers(o.Args); err != nil {
		return nil, err
	}
	for _, a := range o.Args {
		if isContainer(a.Key) {
			continue
		}
		if err := s.set(a); err != nil {
			return nil, fmt.Errorf("%s=%s: %w", a.Key, a.Value, err)
		}
	}
	return s, s.matches(o.Verb)
}

// isContainer reports whether an option of a pod is a container.
func isContainer(key string) bool { return key == "main" || key == "init" || key == "sidecar" }

// containers makes the containers of the pod: other options name them.
func (s *Shape) containers(args []Arg) error {
	for _, a := range args {
		if !isContainer(a.Key) {
			continue
		}
		if why := validation.IsDNS1123Label(a.Value); len(why) > 0 {
			return fmt.Errorf("container name %q: %s", a.Value, strings.Join(why, ", "))
		}
		if s.find(a.Value) != nil {
			return fmt.Errorf("container name %q is used twice", a.Value)
		}
		s.container(a.Key, a.Value)
	}
	if len(s.Pod.Spec.Containers) == 0 {
		return errors.New("the pod has no main container: give main=NAME")
	}
	return nil
}

// matches checks that a workload is one, and a pod is not.
func (s *Shape) matches(v Verb) error {
	spec := &s.Pod.Spec
	switch {
	case v == Deploy && s.Replicas == 0:
		return errors.New("deploy needs replicas=N")
	case v != Deploy && s.Replicas > 0:
		return errors.New("replicas=N is only allowed for deploy")
	case v == Deploy && (spec.ActiveDeadlineSeconds != nil || spec.RestartPolicy != "" &&
		spec.RestartPolicy != v1.RestartPolicyAlways):
		return errors.New("deploy: deadline= and a restart= other than Always are not allowed for the pods of a workload")
	default:
		return nil
	}
}

func (s *Shape) container(kind, name string) {
	c := v1.Container{Name: name, Image: "registry.test/" + name + ":1"}
	spec := &s.Pod.Spec
	switch kind {
	case "main":
		spec.Containers = append(spec.Containers, c)
		return
	case "sidecar":
		always := v1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
	default:
		s.script(name, "run-for", "300ms")
		s.script(name, "exit-code", "0")
	}
	spec.InitContainers = append(spec.InitContainers, c)
}

func (s *Shape) script(container, key, value string) {
	s.Pod.Annotations[simcri.AnnotationPrefix+container+"."+key] = value
}

func (s *Shape) set(a Arg) error {
	spec := &s.Pod.Spec
	switch a.Key {
	case "restart":
		p := v1.RestartPolicy(a.Value)
		if !slices.Contains([]v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}, p) {
			return errors.New("want Always, OnFailure or Never")
		}
		spec.RestartPolicy = p
	case "grace", "deadline":
		n, err := strconv.ParseInt(a.Value, 10, 64)
		switch {
		case err != nil:
			return err
		case a.Key == "grace":
			spec.TerminationGracePeriodSeconds = &n
		default:
			spec.ActiveDeadlineSeconds = &n
		}
	case "replicas":
		n, err := strconv.ParseUint(a.Value, 10, 8)
		if err != nil || n == 0 {
			return errors.New("want 1 to 255")
		}
		s.Replicas = int(n)
	case "disk":
		most, err := Size(a.Value)
		if err != nil {
			return err
		}
		c := &spec.Containers[0]
		limit(c, v1.ResourceEphemeralStorage, int64(most), 0) // it fits on every node
	case "gpus", "cpus":
		n, err := strconv.ParseUint(a.Value, 10, 8)
		if err != nil || n == 0 {
			return errors.New("want 1 to 255")
		}
		if a.Key == "gpus" {
			limit(&spec.Containers[0], GPU, int64(n), int64(n))
			break
		}
		for c := range podspec.Lasting(spec) {
			limit(c, v1.ResourceCPU, int64(n), int64(n))
			limit(c, v1.ResourceMemory, memoryOfOwn, memoryOfOwn)
		}
	case "volume":
		spec.Volumes = append(spec.Volumes, v1.Volume{
			Name: a.Value, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
		})
		c := &spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: a.Value, MountPath: "/" + a.Value})
	case "claim":
		if why := validation.IsDNS1123Label(a.Value); len(why) > 0 {
			return fmt.Errorf("claim name: %s", strings.Join(why, ", "))
		}
		claim(spec, a.Value)
	case "private", "secret", "pull":
		return s.keep(a)
	case "ready", "live", "startup", "prestop", "stop-command", "start-command":
		c := s.find(a.Value)
		if c == nil {
			return s.noContainer(a.Value)
		}
		watch(c, a.Key)
	default:
		container, key, script := strings.Cut(a.Key, ".")
		if !script {
			return fmt.Errorf("unknown pod option %q; options are %s, and CONTAINER.KEY=", a.Key, podOptions)
		}
		if s.find(container) == nil {
			return s.noContainer(container)
		}
		if err := simcri.CheckKey(key, a.Value); err != nil {
			return err
		}
		s.script(container, key, a.Value)
	}
	return nil
}

// watch gives a container a probe or a hook.
func watch(c *v1.Container, key string) {
	probe := &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(port)}},
		PeriodSeconds: 1, FailureThreshold: 3,
	}
	switch key {
	case "ready":
		c.ReadinessProbe = probe
	case "live":
		c.LivenessProbe = probe
	case "startup":
		probe.FailureThreshold = 30
		c.StartupProbe = probe
	default:
		if c.Lifecycle == nil {
			c.Lifecycle = &v1.Lifecycle{}
		}
		switch key {
		case "prestop":
			c.Lifecycle.PreStop = &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}}
		case "stop-command":
			c.Lifecycle.PreStop = command("/stop")
		default:
			c.Lifecycle.PostStart = command("/start")
		}
	}
}

func command(path string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{path}}}
}

// noContainer is the error for an option that names a container which the pod does not have.
func (s *Shape) noContainer(name string) error {
	return fmt.Errorf("the pod has no container %q; its containers are %v", name, s.Names())
}

func (s *Shape) find(name string) *v1.Container {
	for _, list := range [][]v1.Container{s.Pod.Spec.Containers, s.Pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// Names are those of its containers.
func (s *Shape) Names() (names []string) {
	for _, list := range [][]v1.Container{s.Pod.Spec.InitContainers, s.Pod.Spec.Containers} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	return names
}
