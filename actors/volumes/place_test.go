package volumes_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/volumes"
	"github.com/troupe-dev/troupe/tests/podtest"
)

// placed is a pod with a claim whose volume may only be on nodes of a zone. It is of a CSI driver, or local.
func (r *rig) placed(zone string, ofCSI bool) volumes.Mount {
	m := r.mounts("a", "data")
	m.Pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", ResourceVersion: zone}, Spec: v1.PersistentVolumeSpec{
		ClaimRef: &v1.ObjectReference{UID: "c1"},
		NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}},
	}}
	pv.Spec.Local = &v1.LocalVolumeSource{Path: "/disk"}
	if ofCSI {
		pv.Spec.Local, pv.Spec.CSI = nil, &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
	}
	m.Objects = podobjects.NewSet([]podobjects.Entry{
		{Ref: podobjects.Ref{Kind: podobjects.Claim, Namespace: "default", Name: "c"}, State: podobjects.Found, Object: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c1"},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		}},
		{Ref: podobjects.Ref{Kind: podobjects.Volume, Name: "pv"}, State: podobjects.Found, Object: pv},
	})
	return m
}

func nodeIn(zone string) volumes.NodeSeen {
	return volumes.NodeSeen{Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": zone}}}}
}

const elsewhere = `MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms`

// TestElsewhere: a PersistentVolume that may not be on this node is not brought there, until its nodeAffinity or the
// labels of the Node are mended; and once it is there, it stays.
func TestElsewhere(t *testing.T) {
	for _, mend := range []string{"node", "volume"} {
		for _, ofCSI := range []bool{false, true} {
			r := newRig(t)
			mounted := "host: mount a/data"
			if ofCSI {
				r.csi(plays{r})
				mounted = "csi: use d of a"
			}
			r.actor.Tell(r.placed("b", ofCSI))
			r.host.Answer(nil, "prepare a")
			r.WantByListener("the Node is not known", "host: prepare a")
			r.Advance(2 * time.Second)
			r.WantByListener("it is waited for")
			r.actor.Tell(nodeIn("a"))
			r.WantByListener("refused", "a: failed: "+elsewhere)
			r.events.Want("people know", "a: FailedMount: "+elsewhere)
			r.actor.Tell(nodeIn("a"))
			r.WantByListener("the same labels")
			if mend == "node" {
				r.actor.Tell(nodeIn("b"))
			} else {
				r.actor.Tell(r.placed("a", ofCSI))
			}
			r.Settle()
			if ofCSI {
				r.actor.Tell(news("a", volumes.CSINews{Volume: "data", Path: "/data"}))
			} else {
				r.host.Answer(nil, "mount a/data")
			}
			r.Settle()
			want := []string{"a: up data=/data", mounted}
			switch {
			case mend == "node" || ofCSI:
				want = append([]string{"a: pending"}, want...)
			default: // it has failed until it is there
				want = append([]string{"a: failed: " + elsewhere}, want...)
			}
			r.WantByListener(mend, want...)
			r.actor.Tell(nodeIn("c"))
			r.actor.Tell(r.placed("b", ofCSI))
			r.Settle()
			r.Advance(time.Minute)
			r.events.Want("it stays there")
		}
	}
}

// TestElsewhereIsTriedAgain: as a kubelet, the node says again and again why.
func TestElsewhereIsTriedAgain(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(nodeIn("a"))
	r.actor.Tell(r.placed("b", false))
	r.host.Answer(nil, "prepare a")
	r.WantByListener("refused", "a: failed: "+elsewhere, "host: prepare a")
	r.events.Want("people know", "a: FailedMount: "+elsewhere)
	r.Advance(base)
	r.events.Want("again", "a: FailedMount: "+elsewhere)
}

// TestRunsElsewhere: a pod that an agent finds running keeps its volume.
func TestRunsElsewhere(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(nodeIn("a"))
	m := r.placed("b", false)
	m.Later = true
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a", "mount a/data")
	r.WantByListener("it is looked for", "a: up data=/data", "host: prepare a", "host: mount a/data")
}

// TestStaysAfterRestart: what a pod knows to be mounted stays after a restart of this actor, although the labels of the
// Node or the claim would keep it away now. A volume that only an ephemeral container uses is mounted beside it.
func TestStaysAfterRestart(t *testing.T) {
	for _, ofCSI := range []bool{false, true} {
		for _, bad := range []string{"node", "claim"} {
			r := newRig(t)
			if ofCSI {
				r.csi(plays{r})
			}
			m := r.placed("b", ofCSI)
			m.Paths.Set("data", "/data")
			m.Pod.Spec.Volumes = append(m.Pod.Spec.Volumes, v1.Volume{Name: "more", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
			podtest.UseVolumes(&m.Pod.Spec)
			r.actor.Tell(nodeIn("a"))
			want := []string{"host: prepare a", "host: mount a/more", "a: up data=/data more=/more"}
			if bad == "claim" {
				m = badly(m)
			} else if ofCSI {
				want = append(want, "csi: use d of a")
			}
			r.actor.Tell(m)
			r.host.Answer(nil, "prepare a", "mount a/more")
			r.Advance(time.Minute)
			r.WantByListener(bad, want...)
			r.events.Want("nothing is said")
		}
	}
}

// TestOneMore: an ephemeral container is the first to mount a volume of its pod.
func TestOneMore(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one more")
	all := m.Pod.Spec.Containers[0].VolumeMounts
	m.Pod.Spec.Containers[0].VolumeMounts = all[:1]
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a", "mount a/one")
	r.WantByListener("one is used", "a: up one=/one", "host: prepare a", "host: mount a/one")
	debugged := m
	debugged.Pod = m.Pod.DeepCopy()
	debugged.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debug", VolumeMounts: all[1:],
	}}}
	r.actor.Tell(debugged)
	r.host.Answer(nil, "mount a/more")
	r.WantByListener("and the other", "a: up one=/one more=/more", "host: mount a/more")
}

// alone is a pod with the same volume of access mode ReadWriteOncePod.
func (r *rig) alone(name string) volumes.Mount {
	m := r.placed("a", false)
	claim, _ := m.Objects.Claim("default", "c")
	pv, _ := m.Objects.Volume("pv")
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	other := r.mounts(name, "data")
	other.Pod.Spec.Volumes = m.Pod.Spec.Volumes
	other.Objects = podobjects.NewSet([]podobjects.Entry{
		{Ref: podobjects.Ref{Kind: podobjects.Claim, Namespace: "default", Name: "c"}, State: podobjects.Found, Object: claim},
		{Ref: podobjects.Ref{Kind: podobjects.Volume, Name: "pv"}, State: podobjects.Found, Object: pv},
	})
	return other
}

// TestOnePodAtATime: a volume of access mode ReadWriteOncePod is not given to a second pod until the first is unmounted,
// also while its mount is under way. A pod that ran with it before stays.
func TestOnePodAtATime(t *testing.T) {
	const taken = `MountVolume.SetUp failed for volume "pv" : volume uses the ReadWriteOncePod access mode and is already in use by another pod`
	r := newRig(t)
	r.actor.Tell(nodeIn("a"))
	first, second := r.alone("a"), r.alone("b")
	r.actor.Tell(first)
	r.host.Answer(nil, "prepare a")
	r.actor.Tell(second)
	r.host.Answer(nil, "prepare b")
	r.Settle()
	r.WantByListener("the second waits", "b: failed: "+taken, "host: prepare a", "host: mount a/data", "host: prepare b")
	r.events.Want("people are told", "b: FailedMount: "+taken)
	r.host.Answer(nil, "mount a/data")
	r.Advance(base)
	r.Keep("host:")
	r.WantByListener("it waits on")
	r.actor.Tell(unmounts(first))
	r.host.Answer(nil, "unmount a")
	r.Settle()
	r.Keep("host:")
	r.WantByListener("it is its turn", "host: unmount a", "host: mount b/data")
	later := r.alone("c")
	later.Later = true
	r.actor.Tell(later)
	r.Advance(5 * time.Second) // looks wait for others
	r.host.Answer(nil, "prepare c")
	r.Advance(4 * time.Second)
	r.host.Answer(nil, "mount c/data")
	r.Settle()
	r.Keep("c:")
	r.WantByListener("one that ran before", "c: up data=/data")
}

// TestTakenUntilUnmounted: a mount that is given up goes on until it is answered. Until the pod's volumes are unmounted,
// one that it has alone is not given to another pod.
func TestTakenUntilUnmounted(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(nodeIn("a"))
	first := r.alone("a")
	r.actor.Tell(first)
	r.host.Answer(nil, "prepare a")
	r.actor.Tell(unmounts(first))
	r.actor.Tell(r.alone("b"))
	r.host.Answer(nil, "prepare b")
	r.Advance(base)
	r.Keep("host:")
	r.WantByListener("it is being mounted", "host: prepare a", "host: mount a/data", "host: mount a/data: given up",
		"host: prepare b")
	r.host.Answer(nil, "mount a/data")
	r.Advance(base)
	r.Keep("host:")
	r.WantByListener("it was mounted", "host: unmount a")
	r.host.Answer(nil, "unmount a")
	r.Settle()
	r.Keep("host:")
	r.WantByListener("it is free", "host: mount b/data")
}
