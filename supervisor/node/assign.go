package node

import (
	"context"
	"fmt"
	"path/filepath"

	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/assign"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/cpustate"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	machinery "github.com/troupe-dev/troupe/actors/decide/machine"
	"github.com/troupe-dev/troupe/actors/decide/memorystate"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/topology"
)

// assignCPUs prepares that containers get devices, and exclusive CPUs with cpuManagerPolicy static. An agent with
// a state of CPUs that it can't continue with does not start, as a kubelet: containers run on CPUs that it knows
// nothing of.
func (l *launch) assignCPUs(context.Context) error {
	l.states = checkpoints.NewStates(l.config.Options().RootDir)
	l.machine.inventory = &inventory{}
	l.deviceStates = checkpoints.NewStates(l.plugins)
	data, err := l.states.Read(cpustate.Name)
	if err != nil {
		return l.unusable(err)
	}
	if !l.config.StaticCPUs() {
		if s, err := cpustate.Parse(data); err == nil && len(s.Own) > 0 {
			return l.unusable(fmt.Errorf("cpuManagerPolicy is %s, and containers of %d pods have exclusive CPUs in it",
				cpus.None, len(s.Own)))
		}
	}
	c := l.config.Assign()
	if c.Machine, err = topology.Read("/"); err != nil && !c.Static && c.Topology == kubelet.NoneTopologyManagerPolicy {
		c.Machine, err = &machinery.Topology{}, nil // nobody asks for it
	}
	if err != nil {
		return fmt.Errorf("CPUs of this machine: %w", err)
	}
	if l.machine.assign, err = assign.New(c); err != nil || !c.Static {
		return err
	}
	if _, err := assignments.Read(l.machine.assign, data); err != nil {
		return l.unusable(err)
	}
	return nil
}

func (l *launch) unusable(err error) error {
	return fmt.Errorf("the state of the CPU manager, %s, can't be used: %w: drain this node, delete the file, and start "+
		"this agent again", filepath.Join(l.config.Options().RootDir, cpustate.Name), err)
}

// namePolicies writes the state files of what no container has alone, if they are not there or name another policy:
// programs look there for the policy (KubeVirt), and a kubelet has them too. The other ones are written by assignments.
func (l *launch) namePolicies(context.Context) error {
	if !l.machine.assign.Static() {
		none := cpustate.State{Policy: cpus.None}
		l.replace(cpustate.Name, none.Format(), func(old []byte) bool {
			s, err := cpustate.Parse(old)
			return err == nil && s.Policy != cpus.None
		})
	}
	if l.machine.inMemory != nil {
		return nil
	}
	none, err := memorystate.None()
	if err != nil {
		return err
	}
	l.replace(memorystate.Name, none, func(old []byte) bool {
		s, err := memorystate.Parse(old)
		return err == nil && s.Policy != kubelet.NoneMemoryManagerPolicy
	})
	return nil
}

// replace writes a state file that is not there, or is of another policy.
func (l *launch) replace(name string, data []byte, other func(old []byte) bool) {
	old, err := l.states.Read(name)
	if err == nil && (old == nil || other(old)) {
		err = l.states.Write(name, data)
	}
	if err != nil {
		l.options.Log.Warn().Str("error", err.Error()).Str("file", name).
			Msg("cannot write the policy of this agent to its state file: programs that read it see an old policy, or none")
	}
}

// ownCPUs is what containers have alone, as of the state file.
func (l *launch) ownCPUs() (assign.State, error) {
	if !l.machine.assign.Static() {
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
	return l.machine.assign.Allocatable()
}

// givenDevices is which devices containers have, as of the state file. A damaged file says so of none.
func (l *launch) givenDevices() (*devicestate.State, error) {
	data, err := l.deviceStates.Read(devicestate.Name)
	if err != nil || data == nil {
		return nil, err
	}
	s, err := devicestate.Parse(data)
	if err != nil {
		return devicestate.Unknown(err.Error()), nil
	}
	return s, nil
}
