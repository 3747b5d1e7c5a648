package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// PrivateImage needs a credential, which PullSecret has.
const (
	PrivateImage = "registry.test/private:1"
	PullSecret   = "registry"
)

// keep sets what a pod has to do with the private image.
func (s *Shape) keep(a Arg) error {
	spec := &s.Pod.Spec
	switch a.Key {
	case "private":
		c := s.find(a.Value)
		if c == nil {
			return s.noContainer(a.Value)
		}
		c.Image = PrivateImage
	case "secret":
		if a.Value != "yes" {
			return errors.New("want yes")
		}
		spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: PullSecret}}
	default:
		p := v1.PullPolicy(a.Value)
		if !slices.Contains([]v1.PullPolicy{v1.PullAlways, v1.PullIfNotPresent, v1.PullNever}, p) {
			return errors.New("want Always, IfNotPresent or Never")
		}
		for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				list[i].ImagePullPolicy = p
			}
		}
	}
	return nil
}

// Entitled says whether a pod may use an image.
func Entitled(p *v1.Pod, image string) bool {
	has := func(r v1.LocalObjectReference) bool { return r.Name == PullSecret }
	return image != PrivateImage || slices.ContainsFunc(p.Spec.ImagePullSecrets, has)
}

// LockedOut says whether a pod may never run: it may not use one of its images, or must not pull it.
func LockedOut(p *v1.Pod) bool {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].ImagePullPolicy == v1.PullNever || !Entitled(p, list[i].Image) {
				return true
			}
		}
	}
	return false
}

// Private says whether the case has a pod with the private image.
func (c *Case) Private() bool {
	return slices.ContainsFunc(c.Ops, func(o Op) bool { return forms[o.Verb].shape && o.Arg("private") != "" })
}

// lock has pods of the case use the private image, half of them with its secret. It has random numbers of its own, and
// what it adds comes after all else.
func (g *grower) lock() {
	r := Rand(g.c.Seed, "private")
	policies := []v1.PullPolicy{"", v1.PullIfNotPresent, v1.PullAlways, v1.PullAlways, v1.PullNever}
	for _, name := range g.pods {
		if r.IntN(5) == 0 {
			continue
		}
		args := []Arg{{"private", "app"}}
		if r.IntN(2) == 0 && !g.static[name] {
			args = append(args, Arg{"secret", "yes"})
		}
		if p := policies[r.IntN(len(policies))]; p != "" {
			args = append(args, Arg{"pull", string(p)})
		}
		for k := range g.c.Ops {
			if o := &g.c.Ops[k]; o.Role.Pod == name && forms[o.Verb].shape {
				o.Args = append(slices.Clip(o.Args), args...)
			}
		}
	}
	for range r.IntN(3) {
		g.at += time.Duration(1+r.IntN(20)) * time.Second
		g.add(Op{Verb: Restart, Args: []Arg{{"for", fmt.Sprintf("%ds", 1+r.IntN(10))}}})
	}
}
