package node

import (
	"context"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/memorystate"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/topology"
)

// assignMemory prepares that containers get memory of their own with memoryManagerPolicy Static. An agent with a state
// of memory that it can't continue with does not start, as a kubelet: containers are bound to NUMA nodes that it knows
// nothing of.
func (l *launch) assignMemory(context.Context) error {
	data, err := l.states.Read(memorystate.Name)
	if err != nil {
		return l.badMemory(err)
	}
	k := l.config.Kubelet()
	c := memory.Config{Policy: k.MemoryManagerPolicy, Reserved: k.ReservedMemory, Reservation: v1.ResourceList{}}
	if c.Policy == kubelet.NoneMemoryManagerPolicy {
		if s, err := memorystate.Parse(data); err == nil && len(s.Own) > 0 {
			return l.badMemory(fmt.Errorf("memoryManagerPolicy is %s, and containers of %d pods have memory of their own in it",
				c.Policy, len(s.Own)))
		}
		return nil
	}
	if c.Machine, err = topology.Read("/"); err != nil {
		return fmt.Errorf("NUMA nodes of this machine: %w", err)
	}
	kept := held(l.config)
	for name, q := range l.machine.capacity { // order-free: a map again
		if n := kept(name, q.Value()); memory.Is(name) && n > 0 {
			c.Reservation[name] = *resource.NewQuantity(n, resource.BinarySI)
		}
	}
	if l.machine.inMemory, err = memory.New(c); err != nil {
		return err
	}
	if _, err := assignments.ReadMemory(l.machine.inMemory, data); err != nil {
		return l.badMemory(err)
	}
	return nil
}

func (l *launch) badMemory(err error) error {
	return fmt.Errorf("the state of the memory manager, %s, can't be used: %w: drain this node, delete the file, and "+
		"start this agent again", filepath.Join(l.config.Options().RootDir, memorystate.Name), err)
}

// ownMemory is what containers have to themselves, as of the state file.
func (l *launch) ownMemory() (memory.State, error) {
	if l.machine.inMemory == nil {
		return nil, nil
	}
	data, err := l.states.Read(memorystate.Name)
	if err != nil {
		return nil, err
	}
	return assignments.ReadMemory(l.machine.inMemory, data)
}
