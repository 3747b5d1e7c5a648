package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/troupe-dev/troupe/actors/port/simport"
)

// The kinds of workloads.
const (
	Deployment  = "Deployment"
	StatefulSet = "StatefulSet"
)

// How the pods of a StatefulSet are made and deleted (API PodManagementPolicyType).
const (
	OrderedReady = "OrderedReady"
	Parallel     = "Parallel"
)

// Limits of what drivers have.
const (
	MaxVolumes = 1024
	MaxZones   = 1024
)

// CSIDriver is a CSI driver, on each machine and in the control plane.
type CSIDriver struct {
	// Latency is how long it takes for a call on a machine, and Boot how long after its machine it starts.
	Latency *metav1.Duration `json:"latency,omitempty"`
	Boot    *metav1.Duration `json:"boot,omitempty"`
	// Provision, Attach, Detach and Expand are how long it takes for a call of the control plane.
	Provision Span `json:"provision,omitzero"`
	Attach    Span `json:"attach,omitzero"`
	Detach    Span `json:"detach,omitzero"`
	Expand    Span `json:"expand,omitzero"`
	// Limit is how many volumes a machine takes; no limit if not given.
	Limit int `json:"limit,omitempty"`
	// Zones are how many zones the machines are spread over, one after the other. A volume can be used in one of them.
	Zones int `json:"zones,omitempty"`
	// NoAttach: its volumes are not attached to machines (CSIDriver attachRequired).
	NoAttach bool `json:"noAttach,omitempty"`
}

// Span is a duration that is drawn: 3s, 1s..3s (uniform) or 1s~3s (lognormal, median and 99th percentile).
type Span struct{ simport.Dist }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Span) UnmarshalJSON(raw []byte) error {
	var text string
	err := json.Unmarshal(raw, &text)
	if err == nil {
		s.Dist, err = simport.ParseDist(text)
	}
	if err != nil {
		return errors.New("must be a duration, like 3s, 1s..3s or 1s~3s")
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (s Span) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// Volume is one that each pod of a workload has for itself. It stays when the pod is replaced.
type Volume struct {
	Driver string            `json:"driver"`
	Size   resource.Quantity `json:"size"`
}

// OfDriver names a CSI driver on some nodes.
type OfDriver struct {
	OfNodes `json:",inline"`
	Driver  string `json:"driver"`
}

// FailAttach has attachments to some nodes go wrong. Exactly one of Times, Takes and Hang is given.
type FailAttach struct {
	OfDriver `json:",inline"`
	// Times is how many calls fail, on each node.
	Times int `json:"times,omitempty"`
	// Takes is how much longer each takes.
	Takes *metav1.Duration `json:"takes,omitempty"`
	// Hang: calls do not end until healAttach.
	Hang bool `json:"hang,omitempty"`
}

// Expand asks for larger volumes of a workload.
type Expand struct {
	Workload string            `json:"workload"`
	Size     resource.Quantity `json:"size"`
}

// ZoneLabel is the label of nodes with their zone for a driver, Zone that of the i-th node.
func ZoneLabel(driver string) string { return "topology." + driver + "/zone" }

// Zone is that of the i-th node.
func (d *CSIDriver) Zone(i int) string { return fmt.Sprintf("z%d", i%d.Zones) }

// drivers checks the CSI drivers of the machines.
func (c *checker) drivers(n *Nodes) {
	for name, d := range sorted(n.CSI) {
		at := "nodes.csi[" + name + "]"
		if why := validation.IsDNS1123Subdomain(name); len(why) > 0 {
			c.add(at, "%s", why[0])
		} else if why := validation.IsQualifiedName(ZoneLabel(name)); d.Zones > 0 && len(why) > 0 {
			c.add(at+".zones", "the label %s of nodes can't be: %s", ZoneLabel(name), why[0])
		}
		if d.Latency != nil {
			c.duration(at+".latency", *d.Latency, time.Millisecond)
		}
		if d.Boot != nil {
			c.duration(at+".boot", *d.Boot, 0)
		}
		if d.Limit != 0 {
			c.count(at+".limit", d.Limit, 1, MaxVolumes)
		}
		if d.Zones != 0 {
			c.count(at+".zones", d.Zones, 1, MaxZones)
		}
		if d.NoAttach && (!d.Attach.IsZero() || !d.Detach.IsZero()) {
			c.add(at+".noAttach", "attach and detach have no effect with it: leave them out")
		}
	}
}

// driven reports whether the machines have a CSI driver of that name.
func (c *checker) driven(field, name string) bool {
	_, is := c.kind.CSI[name]
	if !is {
		c.add(field, "%q: there is no such CSI driver: name it in nodes.csi", name)
	}
	return is
}

// stateful checks what a workload is, and its volumes.
func (c *checker) stateful(at string, w *Create) {
	c.oneOf(at+".kind", w.Kind, Deployment, StatefulSet)
	c.oneOf(at+".podManagementPolicy", w.PodManagementPolicy, OrderedReady, Parallel)
	is := w.Kind == StatefulSet
	c.kinds[w.Workload] = w
	if !is && w.PodManagementPolicy != "" {
		c.add(at+".podManagementPolicy", "needs kind: StatefulSet")
	}
	if !is && len(w.Volumes) > 0 {
		c.add(at+".volumes", "needs kind: StatefulSet: each pod has volumes of its own")
	}
	for name, v := range sorted(w.Volumes) {
		field := at + ".volumes[" + name + "]"
		if why := validation.IsDNS1123Label(name); len(why) > 0 {
			c.add(field, "%s", why[0])
		}
		c.driven(field+".driver", v.Driver)
		c.positive(field+".size", &v.Size)
	}
}

// onVolumes checks the steps about storage.
func (c *checker) onVolumes(at string, s *Step) {
	switch {
	case s.StopDriver != nil:
		c.ofDriver(at, s.StopDriver, false)
	case s.CrashDriver != nil:
		c.ofDriver(at, s.CrashDriver, false)
	case s.StartDriver != nil:
		c.ofDriver(at, s.StartDriver, false)
	case s.FailAttach != nil:
		c.failAttach(at, s.FailAttach)
	case s.HealAttach != nil:
		c.ofDriver(at, s.HealAttach, true)
	case s.Expand != nil:
		c.expand(at, s.Expand)
	case s.OutOfService != nil:
		c.ofNodes(at, s.OutOfService)
	case s.InService != nil:
		c.ofNodes(at, s.InService)
	}
}

// deletes forgets the volumes of a workload.
func (c *checker) deletes(at string, d *Delete) {
	if w := c.kinds[d.Workload]; d.Claims && w != nil && len(w.Volumes) == 0 {
		c.add(at+".claims", "%s has no volumes", d.Workload)
	}
	delete(c.kinds, d.Workload)
	delete(c.sizes, d.Workload)
}

func (c *checker) failAttach(at string, f *FailAttach) {
	c.ofDriver(at, &f.OfDriver, true)
	given := 0
	if f.Times != 0 {
		given++
		c.count(at+".times", f.Times, 1, MaxPods)
	}
	if f.Takes != nil {
		given++
		c.duration(at+".takes", *f.Takes, time.Millisecond)
	}
	if f.Hang {
		given++
	}
	if given != 1 {
		c.add(at, "must have exactly one of times, takes, hang")
	}
}

// ofDriver checks a step about a driver. attaches: it must be one whose volumes are attached.
func (c *checker) ofDriver(at string, d *OfDriver, attaches bool) {
	c.ofNodes(at, &d.OfNodes)
	if c.driven(at+".driver", d.Driver) && attaches && c.kind.CSI[d.Driver].NoAttach {
		c.add(at+".driver", "volumes of %s are not attached: it has noAttach", d.Driver)
	}
}

func (c *checker) expand(at string, e *Expand) {
	c.there(at+".workload", e.Workload)
	w := c.kinds[e.Workload]
	if w == nil {
		return
	}
	if len(w.Volumes) == 0 {
		c.add(at+".workload", "%s has no volumes", e.Workload)
	}
	least := c.sizes[e.Workload]
	for _, v := range w.Volumes { // order-free: the largest
		if v.Size.Cmp(least) > 0 {
			least = v.Size
		}
	}
	if e.Size.Cmp(least) <= 0 {
		c.add(at+".size", "%s: must be more than the %s that the volumes have: they can't become smaller", e.Size.String(),
			least.String())
	}
	c.sizes[e.Workload] = e.Size
}
