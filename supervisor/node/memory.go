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
	"github.com/troupe-dev/troupe/supervisor/host/kernel/topology"
)

// assignMemory prepares that containers get memory of their own with memoryManagerPolicy Static. An agent with a state
// of memory that it can't continue with does not start, as a kubelet: containers are bound to NUMA nodes that it knows
// nothing of.
func (d *nodeDaemon) assignMemory(context.Context) error {
	data, err := d.states.Read(memory.FileName)
	if err != nil {
		return d.badMemory(err)
	}
	k := d.Config.Kubelet()
	c := memory.Config{Policy: k.MemoryManagerPolicy, Reserved: k.ReservedMemory, Reservation: v1.ResourceList{}}
	if c.Policy == kubelet.NoneMemoryManagerPolicy {
		if s, err := memory.Parse(data); err == nil && len(s.Own) > 0 {
			return d.badMemory(fmt.Errorf("memoryManagerPolicy is %s, and containers of %d pods have memory of their own in it",
				c.Policy, len(s.Own)))
		}
		return nil
	}
	if c.Machine, err = topology.Read("/"); err != nil {
		return fmt.Errorf("NUMA nodes of this machine: %w", err)
	}
	kept := held(d.Config)
	for name, q := range d.machine.capacity { // order-free: a map again
		if n := kept(name, q.Value()); memory.Is(name) && n > 0 {
			c.Reservation[name] = *resource.NewQuantity(n, resource.BinarySI)
		}
	}
	if d.settings.Memory, err = memory.New(c); err != nil {
		return err
	}
	if _, err := assignments.ReadMemory(d.settings.Memory, data); err != nil {
		return d.badMemory(err)
	}
	return nil
}

func (d *nodeDaemon) badMemory(err error) error {
	return fmt.Errorf("the state of the memory manager, %s, can't be used: %w: drain this node, delete the file, and "+
		"start this agent again", filepath.Join(d.rootDir(), memory.FileName), err)
}

// ownMemory is what containers have to themselves, as of the state file.
func (d *nodeDaemon) ownMemory() (memory.State, error) {
	if d.settings.Memory == nil {
		return nil, nil
	}
	data, err := d.states.Read(memory.FileName)
	if err != nil {
		return nil, err
	}
	return assignments.ReadMemory(d.settings.Memory, data)
}
