package live

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/troupe-dev/troupe/actors/port"
)

// Config is what a process is to run. The field that has no good zero value is
// said to be required.
type Config struct {
	// API is the apiserver, which must not hold writes back (kube.Config.QPS).
	// Required.
	API port.API
	// Busy and Load say whether API has much to write at this time (kube.Client); nil
	// for never.
	Busy func() bool
	Load func() (busy, crowded bool)
	// Nodes is how many nodes there are, of all processes together. Required.
	Nodes int
	// Prefix is before the number in the name of each node; "sim-" if empty.
	Prefix string
	// Labels come on top of those that every node has. Taints are those that it
	// is registered with.
	Labels map[string]string
	Taints []v1.Taint
	// Capacity is what the pods of a node may ask for: 32 CPUs, 128 GiB and 110
	// pods where it says nothing.
	Capacity v1.ResourceList

	// Name is that of the simulation: processes with the same Name and Namespace
	// share its nodes. "troupe-sim" if empty.
	Name string
	// Namespace is where the leases of the processes are; "default" if empty.
	Namespace string
	// Identity is this process', unlike any other. Required.
	Identity string
	// LeaseDuration is how long a process that can't be heard keeps its nodes; 15 s
	// if zero. It is well below the 40 s of a node's lease, so that a node that
	// changes hands is never late with that one.
	LeaseDuration time.Duration
	// Writes is how many writes, leases and events apart, are under way at a time;
	// 32 if zero.
	Writes int

	// Log gets what the process has to say, NodeLog what its nodes have.
	Log, NodeLog zerolog.Logger
}

const (
	defaultLeaseDuration = 15 * time.Second
	minLeaseDuration     = 3 * time.Second
	// nodeLease is how long a node's own lease is good (nodeLeaseDurationSeconds).
	nodeLease = 40 * time.Second
	// MaxNodes is how many nodes there can be: as many as have a prefix of
	// addresses each.
	MaxNodes      = 1 << 16
	maxSlots      = 64
	defaultWrites = 32
)

// withDefaults fills what is empty.
func (c Config) withDefaults() Config {
	set := func(s *string, to string) {
		if *s == "" {
			*s = to
		}
	}
	set(&c.Prefix, "sim-")
	set(&c.Name, "troupe-sim")
	set(&c.Namespace, v1.NamespaceDefault)
	if c.LeaseDuration == 0 {
		c.LeaseDuration = defaultLeaseDuration
	}
	if c.Writes == 0 {
		c.Writes = defaultWrites
	}
	capacity := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("128Gi"),
		v1.ResourcePods: resource.MustParse("110"),
	}
	maps.Copy(capacity, c.Capacity)
	c.Capacity = capacity
	return c
}

// Validate says what of the configuration can't be, in words of the flags of
// troupe sim.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.API == nil || c.Identity == "" {
		add("live: API and Identity are required")
	}
	if c.Nodes < 1 || c.Nodes > MaxNodes {
		add("--nodes: %d: must be from 1 to %d", c.Nodes, MaxNodes)
	}
	for _, n := range []struct{ flag, value, example string }{
		{"--node-prefix", c.Prefix, c.nodeName(0)}, {"--name", c.Name, c.Name}, {"--namespace", c.Namespace, c.Namespace},
	} {
		if why := validation.IsDNS1123Label(n.example); len(why) > 0 {
			add("--%s: %q: %s", strings.TrimPrefix(n.flag, "--"), n.value, strings.Join(why, ", "))
		}
	}
	if why := validation.IsDNS1123Subdomain(c.Identity); len(why) > 0 {
		add("--identity: %q: %s", c.Identity, strings.Join(why, ", "))
	}
	if c.LeaseDuration < minLeaseDuration || c.LeaseDuration > nodeLease/2 {
		add("--lease-duration: %v: must be from %v to %v: with more, a node could miss its own lease of %v when it moves "+
			"to another process",
			c.LeaseDuration, minLeaseDuration, nodeLease/2, nodeLease)
	}
	if c.LeaseDuration%time.Second != 0 {
		add("--lease-duration: %v: must be whole seconds", c.LeaseDuration)
	}
	if c.Writes < 0 {
		add("live: Writes is %d: it can't be negative", c.Writes)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		if why := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(c.Labels[key])); len(why) > 0 {
			add("--node-labels: %s=%s: %s", key, c.Labels[key], strings.Join(why, ", "))
		}
		if key == v1.LabelHostname || key == simulationKey {
			add("--node-labels: %s is set by the simulation", key)
		}
	}
	for i := range c.Taints {
		t := &c.Taints[i]
		if why := slices.Concat(validation.IsQualifiedName(t.Key), validation.IsValidLabelValue(t.Value)); len(why) > 0 {
			add("--node-taints: %s: %s", t.ToString(), strings.Join(why, ", "))
		}
		switch t.Effect {
		case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
		default:
			add("--node-taints: %s: effect %q: want NoSchedule, PreferNoSchedule or NoExecute", t.ToString(), t.Effect)
		}
	}
	return errors.Join(errs...)
}

// Keys of labels and annotations on nodes and leases.
const (
	// simulationKey is on every node and every lease: the simulation's name.
	simulationKey = "sim.troupe.dev/simulation"
	// slotKey is on the lease of a slot: its number.
	slotKey = "sim.troupe.dev/slot"
	// shapeKey is on the lease of a process: what nodes there are.
	shapeKey = "sim.troupe.dev/nodes"
)

func (c *Config) nodeName(index int) string { return fmt.Sprintf("%s%05d", c.Prefix, index) }

// nodeLabels are those that the node is registered with.
func (c *Config) nodeLabels(name string) map[string]string {
	l := map[string]string{
		v1.LabelHostname: name, v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64", simulationKey: c.Name,
	}
	maps.Copy(l, c.Labels)
	return l
}

// slots is how many parts the nodes are shared in.
func (c *Config) slots() int { return min(c.Nodes, maxSlots) }

// shape is what all processes of a simulation have to agree on.
func (c *Config) shape() string {
	return fmt.Sprintf("--nodes=%d --node-prefix=%s", c.Nodes, c.Prefix)
}
