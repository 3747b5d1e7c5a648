package node

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/assign"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/cpustate"
	"github.com/troupe-dev/troupe/supervisor/host/checkpoints"
	"github.com/troupe-dev/troupe/supervisor/host/topology"
)

// assignCPUs prepares that containers get CPUs of their own, with cpuManagerPolicy static. An agent with a state that
// it can't continue with does not start, as a kubelet: containers run on CPUs that it knows nothing of.
func (l *launch) assignCPUs(context.Context) error {
	l.states = checkpoints.NewStates(l.root.Path())
	data, err := l.states.Read(cpustate.Name)
	if err != nil {
		return l.unusable(err)
	}
	if !l.config.StaticCPUs() {
		if s, err := cpustate.Parse(data); err == nil && len(s.Own) > 0 {
			return l.unusable(fmt.Errorf("cpuManagerPolicy is %s, and containers of %d pods have CPUs of their own in it",
				cpus.None, len(s.Own)))
		}
		return nil
	}
	c := l.config.Assign()
	if c.Machine, err = topology.Read("/"); err != nil {
		return fmt.Errorf("CPUs of this machine: %w", err)
	}
	if l.machine.assign, err = assign.New(c); err != nil {
		return err
	}
	if _, err := assignments.Read(l.machine.assign, data); err != nil {
		return l.unusable(err)
	}
	return nil
}

func (l *launch) unusable(err error) error {
	return fmt.Errorf("the state of the CPU manager, %s, can't be used: %w: drain this node, delete the file, and start "+
		"this agent again", filepath.Join(l.root.Path(), cpustate.Name), err)
}

// ownCPUs is what containers have alone, as of the state file.
func (l *launch) ownCPUs() (assign.State, error) {
	if l.machine.assign == nil {
		return nil, nil
	}
	data, err := l.states.Read(cpustate.Name)
	if err != nil {
		return nil, err
	}
	return assignments.Read(l.machine.assign, data)
}

// allocatableCPUs are those that containers can have alone.
func (l *launch) allocatableCPUs() cpuset.CPUSet {
	if l.machine.assign == nil {
		return cpuset.New()
	}
	return l.machine.assign.Allocatable()
}
