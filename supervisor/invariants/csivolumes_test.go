package invariants

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

var csiKey = csi.Key{Driver: "d", Handle: "h"}

// driven is a call of a driver for the volume, and for the rig's pod if it is for one.
func (r *rig) driven(op csi.Op, worked bool, change ...func(*machine.CSIChange)) {
	c := machine.CSIChange{Op: op, Key: csiKey, Worked: worked, Stages: true}
	switch op {
	case csi.StageVolume:
		c.Stage = &csi.Stage{Key: csiKey}
	case csi.PublishVolume:
		c.Publish = &csi.Publish{Key: csiKey}
	default:
	}
	if op == csi.PublishVolume || op == csi.UnpublishVolume {
		c.Target = csi.Target{Pod: r.ref.UID, Name: "pv"}
	}
	for _, f := range change {
		f(&c)
	}
	r.Driven(c)
}

func (r *rig) asked(op csi.Op, change ...func(*machine.CSIChange)) { r.driven(op, false, change...) }

// drives are calls that work.
func (r *rig) drives(ops ...csi.Op) {
	for _, op := range ops {
		r.driven(op, false)
		r.driven(op, true)
	}
}

// names is a version of the Node that names the volume as in use, or does not.
func (r *rig) names(is bool) {
	n := &v1.Node{}
	if is {
		n.Status.VolumesInUse = []v1.UniqueVolumeName{csiKey.UniqueName()}
	}
	r.NodeShown(n)
}

// TestCSIRules: what breaks the rules about CSI volumes, and what does not.
func TestCSIRules(t *testing.T) {
	otherwise := func(c *machine.CSIChange) { c.Stage = &csi.Stage{Key: csiKey, FSType: "xfs"} }
	for name, c := range map[string]struct {
		live func(*rig)
		want string
	}{
		"a life": {func(r *rig) {
			r.drives(csi.StageVolume, csi.PublishVolume, csi.StageVolume, csi.PublishVolume)
			r.container("app", 0, ended)
			r.container("proxy", 0, ended)
			r.drives(csi.UnpublishVolume, csi.UnstageVolume)
			r.Done(machine.Call{Verb: "UnmountPod", Pod: "u1"})
		}, ""},
		"a driver that stages nothing": {func(r *rig) {
			r.asked(csi.PublishVolume, func(c *machine.CSIChange) { c.Stages = false })
		}, ""},
		"an inline volume": {func(r *rig) {
			r.asked(csi.PublishVolume, func(c *machine.CSIChange) { c.Publish = &csi.Publish{Inline: true} })
		}, ""},
		"staged otherwise": {func(r *rig) {
			r.drives(csi.StageVolume)
			r.asked(csi.StageVolume, otherwise)
		}, "I33: volume d h is to be staged in another way than it is"},
		"staged otherwise after it was unstaged": {func(r *rig) {
			r.drives(csi.StageVolume, csi.UnstageVolume)
			r.asked(csi.StageVolume, otherwise)
		}, ""},
		"published after a loss of power": {func(r *rig) {
			r.drives(csi.StageVolume)
			r.LostPower()
			r.asked(csi.PublishVolume)
		}, "I33: volume d h is to be published, and is not staged"},
		"unstaged after a loss of power": {func(r *rig) {
			r.drives(csi.StageVolume, csi.PublishVolume)
			r.LostPower()
			r.asked(csi.UnstageVolume)
		}, ""},
		"in use": {func(r *rig) {
			r.Attaches("d")
			r.names(true)
			r.drives(csi.StageVolume, csi.UnstageVolume)
			r.names(false)
		}, ""},
		"not named any more": {func(r *rig) {
			r.Attaches("d")
			r.names(true)
			r.drives(csi.StageVolume)
			r.names(false)
		}, "I37: volume d h is staged, and status.volumesInUse does not name it"},
		"not named after a restore": {func(r *rig) {
			r.Attaches("d")
			r.names(true)
			r.drives(csi.StageVolume)
			r.Restored()
			r.names(false)
		}, ""},
		"attached to another node": {func(r *rig) {
			r.drives(csi.StageVolume)
			r.Attached(csiKey, "n2")
		}, "I37: volume d h is attached to node n2, and mounted here"},
		"attached to another node before": {func(r *rig) {
			r.Attaches("d")
			r.names(true)
			r.Attached(csiKey, "n2")
			r.asked(csi.StageVolume)
		}, "I37: volume d h is mounted here, and attached to node n2"},
		"attached to another node until then": {func(r *rig) {
			r.Attached(csiKey, "n2")
			r.Attached(csiKey, "")
			r.asked(csi.StageVolume)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig().up()
			c.live(r)
			var got []string
			for _, v := range r.found {
				got = append(got, v.ID+": "+v.What)
			}
			check.Equal(t, strings.Join(got, "\n"), c.want, "found %q", got)
		})
	}
}

// TestCSIVolumes: what may be left on a node at rest.
func TestCSIVolumes(t *testing.T) {
	const uid types.UID = "u1"
	used := &v1.Node{}
	used.Status.VolumesInUse = []v1.UniqueVolumeName{csiKey.UniqueName()}
	uses := map[types.UID][]string{uid: {"pv"}}
	attached := func(string) bool { return true }
	for name, c := range map[string]struct {
		ops  []csi.Op
		node *v1.Node
		uses map[types.UID][]string
		off  bool // the power was lost
		want string
	}{
		"nothing": {node: &v1.Node{}},
		"used":    {ops: []csi.Op{csi.StageVolume, csi.PublishVolume}, node: used, uses: uses},
		"not named": {ops: []csi.Op{csi.StageVolume, csi.PublishVolume}, node: &v1.Node{}, uses: uses,
			want: "status.volumesInUse is [], and in use are [kubernetes.io/csi/d^h]"},
		"named for nothing": {node: used, want: "status.volumesInUse is [kubernetes.io/csi/d^h], and in use are []"},
		"staged for nobody": {ops: []csi.Op{csi.StageVolume}, node: used, want: "volume d h is staged, and no pod needs it"},
		"published for nobody": {ops: []csi.Op{csi.StageVolume, csi.PublishVolume}, node: used,
			want: "volume d h is published for pod u1, which does not need it"},
		"not published": {ops: []csi.Op{csi.StageVolume}, node: used, uses: uses, want: "pod u1 needs the volumes [pv], and 0 are published"},
		"notes":         {ops: []csi.Op{csi.StageVolume}, node: used, off: true, want: `volume d h has a directory and notes for pod "", and is not mounted`},
	} {
		t.Run(name, func(t *testing.T) {
			v := kernel.NewVirtual(1, time.Unix(1000, 0))
			m := machine.New(v, &port.Machine{})
			m.CSI.Serve("d", machine.CSIDriver{})
			ok := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			for _, op := range c.ops {
				if op == csi.StageVolume {
					m.CSI.StageVolume(context.Background(), port.CSIDriver{}, csi.Stage{Key: csiKey}, ok)
				} else {
					p := csi.Publish{Key: csiKey, Target: csi.Target{Pod: uid, Name: "pv"}}
					m.CSI.PublishVolume(context.Background(), port.CSIDriver{}, p, nil, func(_ string, err error) { ok(err) })
				}
				v.Advance(time.Second)
			}
			if c.off {
				m.LosePower()
			}
			check.Equal(t, CSIVolumes(m.CSI, c.node, c.uses, attached), c.want, "got")
		})
	}
}
