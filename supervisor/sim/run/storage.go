package run

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/supervisor/sim/scenario"
)

// settleVolumesWithin is how long volumes that no pod uses may stay at the end of a run: six minutes until one is
// detached by force, and the time that the longest calls take.
const settleVolumesWithin = 15 * time.Minute

// serveStorage gives the control plane the drivers of the scenario.
func (r *run) serveStorage() error {
	for _, name := range slices.Sorted(maps.Keys(r.kind.CSI)) {
		d := r.kind.CSI[name]
		s := controlplane.StorageDriver{
			Provision: d.Provision.Dist, Attach: d.Attach.Dist, Detach: d.Detach.Dist, Expand: d.Expand.Dist,
			NoAttach: d.NoAttach,
		}
		if d.Zones > 0 {
			s.Topology = scenario.ZoneLabel(name)
		}
		if err := r.cp.ServeStorage(name, s); err != nil {
			return err
		}
	}
	if len(r.kind.CSI) == 0 {
		return nil
	}
	all := simapi.Select{Kind: port.VolumeAttachmentKind}
	stop, err := r.world.API().Watch(simapi.WatchOptions{Select: all}, r.detached)
	if err != nil {
		return err
	}
	nodes := r.stopNodes
	r.stopNodes = func() {
		stop()
		nodes()
	}
	return nil
}

// drives gives the i-th node CSI drivers as the scenario says.
func drives(s *sim.NodeSpec, k *scenario.Nodes, i int) {
	if len(k.CSI) == 0 {
		return
	}
	s.CSI = map[string]machine.CSIDriver{}
	for name, d := range k.CSI { // order-free: a map again
		on := machine.CSIDriver{NodeID: s.Name, MaxVolumes: int64(d.Limit)}
		if d.Latency != nil {
			on.Latency = d.Latency.Duration
		}
		if d.Boot != nil {
			on.Boot = d.Boot.Duration
		}
		if d.Zones > 0 {
			on.Topology = map[string]string{scenario.ZoneLabel(name): d.Zone(i)}
		}
		s.CSI[name] = on
	}
}

// stateful gives the pods of a template ordinals, and volumes of their own.
func stateful(c *scenario.Create, t *v1.PodTemplateSpec) *controlplane.Stateful {
	out := &controlplane.Stateful{Parallel: c.PodManagementPolicy == scenario.Parallel}
	for _, name := range slices.Sorted(maps.Keys(c.Volumes)) {
		v := c.Volumes[name]
		out.Claims = append(out.Claims, v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1.PersistentVolumeClaimSpec{
				StorageClassName: &v.Driver, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: v.Size}},
			},
		})
		main := &t.Spec.Containers[0]
		main.VolumeMounts = append(main.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	return out
}

// performOnVolumes does the steps about storage.
func (r *run) performOnVolumes(s *scenario.Step, where string) error {
	switch {
	case s.StopDriver != nil:
		return r.drivers(s.StopDriver, report.Fault, where, "stop the driver", (*machine.CSI).Stop)
	case s.CrashDriver != nil:
		return r.drivers(s.CrashDriver, report.Fault, where, "crash the driver", (*machine.CSI).Crash)
	case s.StartDriver != nil:
		return r.drivers(s.StartDriver, report.Step, where, "start the driver", (*machine.CSI).Start)
	case s.FailAttach != nil:
		return r.failAttach(s.FailAttach, where)
	case s.HealAttach != nil:
		return r.each(&s.HealAttach.OfNodes, report.Step, where, "heal attaching to", func(n string) error {
			return r.cp.FailAttach(s.HealAttach.Driver, n, nil)
		})
	case s.Expand != nil:
		r.mark(report.Step, where, fmt.Sprintf("expand %s to %s", s.Expand.Workload, s.Expand.Size.String()))
		return r.cp.Expand(s.Expand.Workload, s.Expand.Size)
	case s.OutOfService != nil:
		return r.each(s.OutOfService, report.Step, where, "out of service:", func(n string) error {
			return r.cp.OutOfService(n, true)
		})
	case s.InService != nil:
		return r.each(s.InService, report.Step, where, "in service:", func(n string) error {
			return r.cp.OutOfService(n, false)
		})
	default:
		panic("a step that does nothing passed the check")
	}
}

// drivers does f to the CSI driver of each node that is meant.
func (r *run) drivers(
	d *scenario.OfDriver, kind report.MarkKind, where, verb string, f func(*machine.CSI, string),
) error {
	return r.each(&d.OfNodes, kind, where, verb+" "+d.Driver+" of", r.onNode(func(n *sim.Node) {
		f(n.Machine().CSI, d.Driver)
	}))
}

func (r *run) failAttach(f *scenario.FailAttach, where string) error {
	fault := controlplane.AttachFault{Times: f.Times, Hang: f.Hang}
	if f.Takes != nil {
		fault.Takes = f.Takes.Duration
	}
	return r.each(&f.OfNodes, report.Fault, where, "fail attaching to", func(n string) error {
		return r.cp.FailAttach(f.Driver, n, &fault)
	})
}

// holdVolumes has the run fail if a volume is published on two nodes at once, or staged on one that it is not attached
// to: each volume of a scenario is ReadWriteOnce.
func (r *run) holdVolumes(n *sim.Node) {
	if len(r.kind.CSI) == 0 {
		return
	}
	disks := n.Machine().CSI
	next := disks.Changed
	disks.Changed = func(c machine.CSIChange) {
		if next != nil {
			next(c)
		}
		if !c.Worked {
			return
		}
		switch c.Op {
		case csi.StageVolume:
			if !r.kind.CSI[c.Driver].NoAttach && !r.attached(c.Key, n.Name()) {
				r.wrong(n.Name(), "volumes are staged while they are attached", c.String()+" is staged, and not attached")
			}
		case csi.PublishVolume:
			r.publishedOn(c.Key, n.Name())
		case csi.Attachment, csi.UnpublishVolume, csi.UnstageVolume, csi.ExpandVolume:
		}
	}
}

// wrong is a failure of a volume on a node.
func (r *run) wrong(node, want, got string) {
	r.failures = append(r.failures, report.Failure{At: r.now(), Want: want, Got: got, Where: node})
}

// attached reports whether a VolumeAttachment of the API says so.
func (r *run) attached(k csi.Key, node string) bool {
	o, err := simapi.Object[*storagev1.VolumeAttachment](r.world.API(), "", csi.AttachmentName(k, node))
	return err == nil && o.Status.Attached
}

func (r *run) publishedOn(k csi.Key, node string) {
	on := r.published[k]
	if on == nil {
		on = map[string]bool{}
		r.published[k] = on
	}
	for _, other := range slices.Sorted(maps.Keys(on)) {
		if other == node {
			continue
		}
		if !slices.ContainsFunc(r.mounts(k, other), func(p machine.CSIPlace) bool { return p.Target.Pod != "" }) {
			delete(on, other)
			continue
		}
		r.wrong(node, "a volume is published on one node", fmt.Sprintf("%s is published on %s, too", k, other))
	}
	on[node] = true
}

// mounts are where a volume is mounted on a node.
func (r *run) mounts(k csi.Key, node string) (out []machine.CSIPlace) {
	n := r.world.Node(node)
	if n == nil {
		return nil
	}
	for _, p := range n.Machine().CSI.Places() {
		if p.Key == k && p.Mounted {
			out = append(out, p)
		}
	}
	return out
}

// detached has the run fail if a volume is still mounted on the node that it was detached from.
func (r *run) detached(e simapi.Event) {
	o := e.Object.(*storagev1.VolumeAttachment)
	if e.Type != simapi.Deleted || o.Spec.Source.PersistentVolumeName == nil {
		return
	}
	v, err := simapi.Object[*v1.PersistentVolume](r.world.API(), "", *o.Spec.Source.PersistentVolumeName)
	if err != nil || v.Spec.CSI == nil {
		return
	}
	k := csi.Key{Driver: v.Spec.CSI.Driver, Handle: v.Spec.CSI.VolumeHandle}
	if len(r.mounts(k, o.Spec.NodeName)) > 0 {
		r.wrong(o.Spec.NodeName, "volumes are detached when they are not mounted", k.String()+" was detached, and is mounted")
	}
}

// settleVolumes has the run fail if volumes that no pod uses stay attached, staged or published.
func (r *run) settleVolumes() error {
	if len(r.kind.CSI) == 0 {
		return nil
	}
	r.doing = "volumes are detached"
	r.expected++
	var left []string
	end := r.now() + settleVolumesWithin
	for {
		if left = r.leftVolumes(); len(left) == 0 {
			return nil
		}
		if r.now() >= end {
			break
		}
		if err := r.pass(time.Second); err != nil {
			r.expected-- // the outcome is unknown
			return err
		}
	}
	const shown = 5
	text := fmt.Sprint(left[:min(shown, len(left))])
	if len(left) > shown {
		text += fmt.Sprintf(" and %d more", len(left)-shown)
	}
	r.failures = append(r.failures, report.Failure{
		At: r.now(), Want: "no volume without a pod is attached or mounted at the end", Got: text,
		Where: r.options.ScenarioName,
	})
	return nil
}

// leftVolumes are what is attached and mounted without a pod. A pod that is being deleted has to go first, unless its
// machine is off.
func (r *run) leftVolumes() (out []string) {
	for _, name := range r.cp.Unused() {
		out = append(out, "attached: "+name)
	}
	pods, err := simapi.Objects[*v1.Pod](r.world.API(), simapi.Select{})
	if err != nil {
		panic(err) // the selector is ours
	}
	used := map[string]bool{} // NODE and UID, and NODE and name of a PV
	for _, p := range pods {
		if n := r.world.Node(p.Spec.NodeName); p.DeletionTimestamp != nil && n != nil && n.On() {
			out = append(out, fmt.Sprintf("being deleted: pod %s on %s", p.Name, n.Name()))
			continue
		}
		used[p.Spec.NodeName+" "+string(p.UID)] = true
		for i := range p.Spec.Volumes {
			c := p.Spec.Volumes[i].PersistentVolumeClaim
			if c == nil {
				continue
			}
			if claim, err := simapi.Object[*v1.PersistentVolumeClaim](r.world.API(), p.Namespace, c.ClaimName); err == nil {
				used[p.Spec.NodeName+" "+claim.Spec.VolumeName] = true
			}
		}
	}
	for _, name := range r.nodes {
		n := r.world.Node(name)
		if n == nil || !n.On() {
			continue
		}
		for _, p := range n.Machine().CSI.Places() {
			what := string(p.Target.Pod)
			if what == "" {
				what = p.Handle
			}
			if !used[name+" "+what] {
				out = append(out, fmt.Sprintf("mounted: %s on %s", p.Handle, name))
			}
		}
	}
	return out
}
