package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

var states = []State{Made, Started, Ended, Running, Ready, Succeeded, Failed, Gone}

// mostNodes is how many nodes a case may have.
const mostNodes = 100

// mostDevices is how many devices a case may have.
const mostDevices = 100

// Validate says everything that is wrong with the case.
func (c *Case) Validate() error {
	var errs []error
	bad := func(what fmt.Stringer, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%q: %w", what, fmt.Errorf(format, args...)))
	}
	switch {
	case c.Nodes < 0 || c.Nodes > mostNodes:
		errs = append(errs, fmt.Errorf("nodes %d: want 1 to %d", c.Nodes, mostNodes))
	case c.Nodes > 0 && c.Disks > 0:
		errs = append(errs, errors.New("pressure is not possible with nodes N: nodes of a cluster have no limited disks"))
	case c.Devices < 0 || c.Devices > mostDevices:
		errs = append(errs, fmt.Errorf("devices %d: want 1 to %d", c.Devices, mostDevices))
	case c.Nodes > 0 && c.Devices > 0:
		errs = append(errs, errors.New("devices N is not possible with nodes N"))
	case c.Nodes > 0 && c.CSI != "":
		errs = append(errs, errors.New("csi is not possible with nodes N"))
	case c.CSI != "" && c.Standalone:
		errs = append(errs, errors.New("csi is not possible with standalone: a CSI driver needs an apiserver"))
	case c.Nodes > 0 && c.Standalone:
		errs = append(errs, errors.New("standalone is not possible with nodes N"))
	}
	errs = append(errs, c.Schedule.validate())
	k := known{c: c, pods: map[string]*Shape{}}
	for i := range c.Ops {
		o := &c.Ops[i]
		if err := k.op(o); err != nil {
			bad(o, "%w", err)
		}
	}
	for i := range c.Faults {
		f := &c.Faults[i]
		switch {
		case f.Stream.Effects() == nil:
			bad(f, "unknown stream %q", f.Stream)
		case !slices.Contains(f.Stream.Effects(), f.Effect.Do):
			bad(f, "a fault of stream %s can't be %q; its effects are %v", f.Stream, f.Effect.Do, f.Stream.Effects())
		case !f.Stream.Can(f.Subject, f.Effect.Do):
			bad(f, "only %s can be %s or %s, only calls of CSI drivers can %s, and within one there is only %s", LoadCheckpoint,
				Lost, Older, Lose, KillAgent)
		case f.N < 1:
			bad(f, "#N counts from #1")
		case f.Effect.Do.TakesTime() != (f.Effect.For > 0):
			bad(f, "slow, answer-late, work-late and delay, and nothing else, take a duration")
		case f.Role.Pod != "" && k.pods[f.Role.Pod] == nil:
			bad(f, "unknown pod %s: no operation creates it", f.Role.Pod)
		}
	}
	return errors.Join(errs...)
}

// known is what the operations so far have made.
type known struct {
	c *Case
	// pods are the pods and workloads.
	pods   map[string]*Shape
	backup bool
}

func (k *known) op(o *Op) error {
	f, is := forms[o.Verb]
	switch {
	case !is:
		return unknownVerb(o.Verb)
	case f.api && k.c.Standalone:
		return fmt.Errorf("%s needs an apiserver, which a standalone node does not have", o.Verb)
	case f.pressure && k.c.Disks == 0:
		return fmt.Errorf("%s needs a node with eviction: give pressure disks=1", o.Verb)
	case f.devices && k.c.Devices == 0, f.shape && k.c.Devices == 0 && (o.Arg("gpus") != "" || o.Arg("cpus") != ""):
		return fmt.Errorf("%s needs a node with devices: give devices N", o)
	case (f.csi || f.shape && o.Arg("claim") != "") && k.c.CSI == "":
		return fmt.Errorf("%s needs a node with a CSI driver: give csi plain or csi attach", o)
	case o.Verb == Write && o.Arg("claim") != "":
		return errors.New("claim= is not allowed for a static pod")
	case o.Verb == Write && o.Arg("secret") != "":
		return errors.New("secret= is not allowed for a static pod")
	case f.shape && o.Arg("private") != "" && k.c.Nodes > 0:
		return errors.New("private= is not possible with nodes N")
	case f.cluster && k.c.Nodes == 0:
		return fmt.Errorf("%s needs a cluster: give nodes N", o.Verb)
	case f.role == 0 && o.Role != Role{}:
		return fmt.Errorf("%s concerns a node: it takes no pod", o.Verb)
	case f.role == 1 && (o.Role.Pod == "" || o.Role.Container != ""):
		return fmt.Errorf("%s needs a pod: give POD, without a container", o.Verb)
	case f.role == 2 && o.Role.Container == "":
		return fmt.Errorf("%s needs a container: give POD/CONTAINER", o.Verb)
	case o.When.On != NoState && !slices.Contains(states, o.When.On):
		return fmt.Errorf("unknown state %q; states are %v", o.When.On, states)
	case o.When.At < 0 || o.When.After < 0:
		return errors.New("a time can't be negative")
	case o.Verb == Restore && !k.backup:
		return errors.New("restore needs a backup before it")
	case f.node && f.cluster && o.Node == "":
		return fmt.Errorf("%s needs a node", o.Verb)
	case o.Node != "" && (!f.node || !slices.Contains(k.c.NodeNames(), o.Node)):
		return fmt.Errorf("unknown node %s; nodes are %v", o.Node, k.c.NodeNames())
	}
	k.backup = k.backup || o.Verb == Backup
	if err := k.args(o, &f); err != nil {
		return err
	}
	for _, r := range []Role{o.Role, o.When.Of} {
		s := k.pods[r.Pod]
		if r.Pod != "" && s == nil {
			return fmt.Errorf("unknown pod %s: no operation before this one creates it", r.Pod)
		}
		if r.Container != "" && !slices.Contains(s.Names(), r.Container) {
			return fmt.Errorf("pod %s has no container %s; its containers are %v", r.Pod, r.Container, s.Names())
		}
	}
	if o.Verb == Grow && (o.Arg("claim") == "" || o.Arg("size") == "") {
		return errors.New("want claim=NAME size=SIZE")
	}
	if o.Verb == Replicas && o.Arg("to") == "" {
		return errors.New("want to=N")
	}
	if s := k.pods[o.Role.Pod]; s != nil {
		switch many := s.Replicas > 0; {
		case f.single && many:
			return fmt.Errorf("%s is a workload, not a pod", o.Role.Pod)
		case o.Verb == Replicas && !many:
			return fmt.Errorf("%s is a pod, not a workload", o.Role.Pod)
		}
	}
	return o.values()
}

// args checks the words of an operation, and takes in the pod that it makes.
func (k *known) args(o *Op, f *form) error {
	if !f.shape {
		for _, a := range o.Args {
			if !slices.Contains(f.args, a.Key) {
				return fmt.Errorf("%s has no option %q; its options are %v", o.Verb, a.Key, f.args)
			}
		}
		return nil
	}
	s, err := ShapeOf(o)
	if err != nil {
		return err
	}
	if was := k.pods[o.Role.Pod]; was != nil && (was.Replicas > 0) != (s.Replicas > 0) {
		return fmt.Errorf("%s is created as a pod and as a workload", o.Role.Pod)
	}
	k.pods[o.Role.Pod] = s
	return nil
}

// NodeNames are the nodes of the case: n1, n2, …
func (c *Case) NodeNames() []string {
	names := make([]string, max(c.Nodes, 1))
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i+1)
	}
	return names
}

// values checks the values of the arguments that are not a shape's.
func (o *Op) values() error {
	for _, a := range o.Args {
		var err error
		switch a.Key {
		case "for", "by":
			_, err = time.ParseDuration(a.Value)
		case "memory", "layer", "size":
			_, err = Size(a.Value)
		case "code", "grace":
			_, err = strconv.ParseInt(a.Value, 10, 32)
		case "to":
			if o.Verb == Replicas {
				_, err = strconv.ParseUint(a.Value, 10, 8)
			}
		}
		if err != nil {
			return fmt.Errorf("%s=%s: %w", a.Key, a.Value, err)
		}
	}
	return nil
}
