package assignments

import (
	"fmt"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// ReadMemory is what a state file says of the memory that containers have to themselves. A node without the file has no
// data. The error says why this agent can't continue with it; the file stays as it is.
func ReadMemory(rules *memory.Rules, data []byte) (memory.State, error) {
	if data == nil || rules == nil {
		return memory.State{}, nil
	}
	s, err := memory.Parse(data)
	if err != nil {
		return nil, err
	}
	if s.Policy != kubelet.StaticMemoryManagerPolicy {
		if len(s.Own) > 0 {
			return nil, fmt.Errorf("it was written with memoryManagerPolicy %q, and has memory of %d pods", s.Policy, len(s.Own))
		}
		return memory.State{}, nil
	}
	_, err = rules.Count(s.Own)
	return s.Own, err
}

// placingMemory is the choice of memory for one request, and all choices: nil, and the other ones, if no container has
// memory of its own.
func (a *assignments) placingMemory(q *request, others []topology.Provider) (*memory.Placing, []topology.Provider) {
	if a.deps.Memory == nil {
		return nil, others
	}
	p := a.deps.Memory.Place(a.memory, q.Pod, q.runs)
	return p, append(others, p)
}

// takeMemory notes what a pod gets.
func (a *assignments) takeMemory(ctx *kernel.Context[Message], q *request, p *memory.Placing) {
	if p == nil || len(p.Own()) == len(a.memory[q.Pod.UID]) {
		return
	}
	a.memory[q.Pod.UID] = p.Own()
	a.note(q.Pod.UID, &a.changed.memory)
	e := ctx.Log().Info().Str("pod", q.Pod.Namespace+"/"+q.Pod.Name)
	nodes := map[string]string{}
	for name, blocks := range p.Own() { // order-free: a map again
		nodes[name] = memory.Mems(memory.NodesOf(blocks))
	}
	e.Interface("numaNodes", nodes).
		Msg("the containers of a pod have memory of NUMA nodes to themselves (memoryManagerPolicy: Static)")
}

// formatMemory is the state file of memory.
func (a *assignments) formatMemory() []byte {
	data, err := memory.Format(a.deps.Memory, a.memory)
	if err != nil {
		panic("assignments: memory that the machine does not have was given: " + err.Error())
	}
	return data
}
