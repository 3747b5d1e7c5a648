package workloads

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/tests/check"
)

// Release is a release of a workload on a node: its images have the release's number in their tags.
type Release struct {
	Node   string
	Number int
	// Installs is what a pod of a name copies: a file, and the place for it, as its container sees them.
	Installs map[string]string
}

// Programs are those that the containers, probes and hooks of all workloads call: an image may be one of several.
func Programs() (out []string, err error) {
	defer check.Return(&err)
	for _, w := range append(check.Must(Charts()), check.Must(StaticPods())...) {
		for _, u := range check.Must(w.Objects(func(string) string { return "1" })) {
			_, programs, err := Release{}.StandIn(u)
			check.OK(err)
			out = append(out, programs...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// StandIn puts the stand-in into the pods of an object. It returns the names of its images, and the programs that its
// containers, probes and hooks call.
func (r Release) StandIn(u *unstructured.Unstructured) (images, programs []string, err error) {
	path := []string{"spec", "template", "spec"}
	if u.GetKind() == "Pod" {
		path = path[2:]
	}
	fields, found, err := unstructured.NestedMap(u.Object, path...)
	if err != nil || !found {
		return nil, nil, err
	}
	var spec v1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, &spec, true); err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		ends := c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways
		programs = append(programs, r.standIn(u.GetName(), &spec, c, ends)...)
		images = append(images, c.Image)
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		programs = append(programs, r.standIn(u.GetName(), &spec, c, spec.RestartPolicy == v1.RestartPolicyNever)...)
		images = append(images, c.Image)
	}
	for _, v := range spec.Volumes {
		if v.Image != nil {
			images = append(images, v.Image.Reference)
		}
	}
	if u.GetKind() != "Pod" {
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		spec.NodeSelector["test"] = r.Node
	}
	if fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&spec); err != nil {
		return nil, nil, err
	}
	return images, programs, unstructured.SetNestedMap(u.Object, fields, path...)
}

// standIn makes a container run the stand-in, and returns the programs that it calls.
func (r Release) standIn(pod string, spec *v1.PodSpec, c *v1.Container, ends bool) (programs []string) {
	c.Image = fmt.Sprintf("%s-r%d", c.Image, r.Number)
	say := func(name, value string) {
		if value != "" {
			c.Env = append(c.Env, v1.EnvVar{Name: "STAND_IN" + name, Value: value})
		}
	}
	say("", r.Node+"/"+pod+"/"+c.Name)
	if spec.HostPID || spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		say("_SHARED", "yes")
	}
	if ends {
		say("_ENDS", "yes")
	} else {
		say("_SERVES", strings.Join(serves(c), " "))
	}
	say("_COPIES", r.Installs[pod])
	var looks []string
	for _, m := range c.VolumeMounts {
		how := "list:"
		if slices.ContainsFunc(spec.Volumes, func(v v1.Volume) bool {
			return v.Name == m.Name && (v.HostPath != nil || v.Image != nil)
		}) {
			how = "look:"
		}
		looks = append(looks, how+strings.TrimSuffix(m.MountPath, "/"))
	}
	say("_LOOKS", strings.Join(looks, " "))
	calls := [][]string{c.Command}
	for _, p := range probes(c) {
		if p.Exec != nil {
			calls = append(calls, p.Exec.Command)
		}
	}
	if l := c.Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Exec != nil {
		calls = append(calls, l.PreStop.Exec.Command)
	}
	for _, call := range calls {
		if len(call) > 0 {
			programs = append(programs, call[0])
		}
	}
	return programs
}

func probes(c *v1.Container) []*v1.Probe {
	all := []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe}
	return slices.DeleteFunc(all, func(p *v1.Probe) bool { return p == nil })
}

// serves are the ports that a container has to answer, and how.
func serves(c *v1.Container) (out []string) {
	how := map[int]string{}
	number := func(port intstr.IntOrString) int {
		for _, p := range c.Ports {
			if port.Type == intstr.String && p.Name == port.StrVal {
				return int(p.ContainerPort)
			}
		}
		return port.IntValue()
	}
	for _, p := range probes(c) {
		switch {
		case p.HTTPGet != nil:
			how[number(p.HTTPGet.Port)] = "http"
			if p.HTTPGet.Scheme == v1.URISchemeHTTPS {
				how[number(p.HTTPGet.Port)] = "https"
			}
		case p.TCPSocket != nil:
			how[number(p.TCPSocket.Port)] = "tcp"
		}
	}
	for _, p := range c.Ports {
		if p.Protocol == v1.ProtocolUDP {
			out = append(out, fmt.Sprint("udp:", p.ContainerPort))
		} else if how[int(p.ContainerPort)] == "" {
			how[int(p.ContainerPort)] = "tcp"
		}
	}
	for port, as := range how {
		out = append(out, fmt.Sprint(as, ":", port))
	}
	slices.Sort(out)
	return out
}
