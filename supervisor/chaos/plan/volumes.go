package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Driver is the CSI driver of a case.
const Driver = "disks.example.com"

// What the node of a case has for CSI volumes: a driver whose volumes are used as they are, or are attached before.
const (
	Plain    = "plain"
	Attached = "attach"
)

// DrivenCall says whether a call about the machine is one of a CSI driver for a volume. It may work without an answer.
func DrivenCall(verb string) bool {
	return strings.HasPrefix(verb, "Node") && strings.HasSuffix(verb, "Volume")
}

// DrivenPoint is a point within a call of a CSI driver: it was asked, or has worked just now. The agent can be killed
// there.
func DrivenPoint(verb string, worked bool) string {
	if worked {
		return verb + workedSuffix
	}
	return verb + askedSuffix
}

const askedSuffix, workedSuffix = "-asked", "-worked"

func withinDriven(subject string) bool {
	return strings.HasSuffix(subject, askedSuffix) || strings.HasSuffix(subject, workedSuffix)
}

// claim gives the first container of a pod the volume of a claim.
func claim(s *v1.PodSpec, name string) {
	s.Volumes = append(s.Volumes, v1.Volume{Name: "claim-" + name, VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}})
	c := &s.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "claim-" + name, MountPath: "/" + name})
}

// drive makes one case in five, or all, one with a CSI driver and claims of pods, some of them of two. It has random
// numbers of its own, and what it adds comes after all else, so that the other cases are what they were.
func (g *grower) drive(always bool) {
	r := Rand(g.c.Seed, "csi")
	if r.IntN(5) != 0 && !always || g.c.Standalone {
		return
	}
	g.c.CSI = []string{Plain, Attached}[r.IntN(2)]
	var claims []string
	for i, name := range g.pods {
		if g.static[name] || r.IntN(4) == 0 {
			continue
		}
		of := []string{fmt.Sprint("c", i), "shared"}[r.IntN(4)/3]
		if !slices.Contains(claims, of) {
			claims = append(claims, of)
		}
		for k := range g.c.Ops {
			if o := &g.c.Ops[k]; o.Role.Pod == name && o.Verb == Create {
				o.Args = append(slices.Clip(o.Args), Arg{"claim", of})
			}
		}
	}
	for range r.IntN(4) {
		g.at += time.Duration(1+r.IntN(20)) * time.Second
		wait := Arg{"for", fmt.Sprintf("%ds", 1+r.IntN(30))}
		switch verb := []Verb{StopDriver, CrashDriver, Restart, Power, Grow}[r.IntN(5)]; {
		case verb != Grow:
			g.add(Op{Verb: verb, Args: []Arg{wait}})
		case len(claims) > 0:
			of := claims[r.IntN(len(claims))]
			g.add(Op{Verb: Grow, Args: []Arg{{"claim", of}, {"size", fmt.Sprintf("%dGi", 2+r.IntN(4))}}})
		}
	}
}
