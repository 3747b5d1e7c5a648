package node

import (
	"context"
	"fmt"
	"path/filepath"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	decide "github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/topology"
)

// assignCPUs prepares that containers get devices, and exclusive CPUs with cpuManagerPolicy static. An agent with
// a state of CPUs that it can't continue with does not start, as a kubelet: containers run on CPUs that it knows
// nothing of.
func (d *nodeDaemon) assignCPUs(context.Context) error {
	d.states = checkpoints.NewStates(d.rootDir())
	data, err := d.states.Read(cpus.FileName)
	if err != nil {
		return d.unusable(err)
	}
	if !d.Config.StaticCPUs() {
		if s, err := cpus.Parse(data); err == nil && len(s.Own) > 0 {
			return d.unusable(fmt.Errorf("cpuManagerPolicy is %s, and containers of %d pods have exclusive CPUs in it",
				cpus.None, len(s.Own)))
		}
	}
	c := d.Config.Assign()
	if c.Machine, err = topology.Read("/"); err != nil && !c.Static && c.Topology == kubelet.NoneTopologyManagerPolicy {
		c.Machine, err = &decide.Machine{}, nil // nobody asks for it
	}
	if err != nil {
		return fmt.Errorf("CPUs of this machine: %w", err)
	}
	if d.settings.Assign, err = cpus.New(c); err != nil || !c.Static {
		return err
	}
	if _, err := assignments.Read(d.settings.Assign, data); err != nil {
		return d.unusable(err)
	}
	return nil
}

func (d *nodeDaemon) unusable(err error) error {
	return fmt.Errorf("the state of the CPU manager, %s, can't be used: %w: drain this node, delete the file, and start "+
		"this agent again", filepath.Join(d.rootDir(), cpus.FileName), err)
}

// namePolicies writes the state files of what no container has alone, if they are not there or name another policy:
// programs look there for the policy (KubeVirt), and a kubelet has them too. The other ones are written by assignments.
func (d *nodeDaemon) namePolicies(context.Context) error {
	if !d.settings.Assign.Static() {
		none := cpus.File{Policy: cpus.None}
		d.replace(cpus.FileName, none.Format(), func(old []byte) bool {
			s, err := cpus.Parse(old)
			return err == nil && s.Policy != cpus.None
		})
	}
	if d.settings.Memory != nil {
		return nil
	}
	none, err := memory.FormatNone()
	if err != nil {
		return err
	}
	d.replace(memory.FileName, none, func(old []byte) bool {
		s, err := memory.Parse(old)
		return err == nil && s.Policy != kubelet.NoneMemoryManagerPolicy
	})
	return nil
}

// replace writes a state file that is not there, or is of another policy.
func (d *nodeDaemon) replace(name string, data []byte, other func(old []byte) bool) {
	old, err := d.states.Read(name)
	if err == nil && (old == nil || other(old)) {
		err = d.states.Write(name, data)
	}
	if err != nil {
		d.Log.Warn().Str("error", err.Error()).Str("file", name).
			Msg("cannot write the policy of this agent to its state file: programs that read it see an old policy, or none")
	}
}

// ownCPUs is what containers have alone, as of the state file.
func (d *nodeDaemon) ownCPUs() (cpus.State, error) {
	if !d.settings.Assign.Static() {
		return nil, nil
	}
	data, err := d.states.Read(cpus.FileName)
	if err != nil {
		return nil, err
	}
	return assignments.Read(d.settings.Assign, data)
}
