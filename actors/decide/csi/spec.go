package csi

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Spec is what a pod needs of a volume.
type Spec struct {
	Key
	Target
	// Volume is its name in the pod.
	Volume string
	// Inline: it is in the spec of the pod. Block: it is a device (volumeMode Block).
	Inline, Block bool
	FSType        string
	MountOptions  []string
	Access        v1.PersistentVolumeAccessMode
	// Once: the node alone may write to it (ReadWriteOnce or ReadWriteOncePod is among its access modes).
	Once       bool
	Attributes map[string]string
	ReadOnly   bool
	// StageSecrets and PublishSecrets are for the two calls. They are in no message for people. NoStageSecret is why those
	// for a stage can't be had: it does not matter to a driver that stages nothing.
	StageSecrets, PublishSecrets, ExpandSecrets map[string]string
	NoStageSecret                               string
	// Size is what the volume has to be expanded to, in bytes; 0: it has its size. Has is the size that its claim says it
	// has; 0: it says none. Claim is the name of its claim, ClaimUID its UID.
	Size, Has int64
	Claim     string
	ClaimUID  types.UID
	// Label is the SELinux label that it has to be mounted with if the driver can do so; empty for none.
	Label string
	// Group is the fsGroup of the pod, OnMismatch its fsGroupChangePolicy.
	Group      *int64
	OnMismatch bool
	// Pod.
	Namespace, PodName, ServiceAccount string
}

// Driver is what a CSIDriver object says, or its defaults without one.
type Driver struct {
	// Attach: volumes are attached by the controllers before they are used.
	Attach  bool
	PodInfo bool
	// Group is when the agent sets the group of files.
	Group storagev1.FSGroupPolicy
	// Persistent and Inline: volumes of this kind are supported.
	Persistent, Inline bool
	Tokens             []storagev1.TokenRequest
	// TokensInSecrets: tokens are among the secrets, instead of the attributes.
	TokensInSecrets bool
	Republish       bool
	// SELinux: the driver mounts volumes with the option context=.
	SELinux bool
	// Missing: there is no such object.
	Missing bool
	// InfoPeriod is the time between calls of NodeGetInfo, in seconds; 0: it is called once.
	InfoPeriod int64
}

// longestPeriod bounds InfoPeriod, which the API does not: a year.
const longestPeriod = 365 * 24 * 3600

// DriverOf is what an object says; nil: there is none.
func DriverOf(o *storagev1.CSIDriver) *Driver {
	if o == nil {
		return &Driver{Attach: true, Group: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, Persistent: true, Missing: true}
	}
	s := &o.Spec
	d := &Driver{
		Attach: ptr.Deref(s.AttachRequired, true), PodInfo: ptr.Deref(s.PodInfoOnMount, false),
		Group: ptr.Deref(s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy),
		Persistent: len(s.VolumeLifecycleModes) == 0 ||
			slices.Contains(s.VolumeLifecycleModes, storagev1.VolumeLifecyclePersistent),
		Inline: slices.Contains(s.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral),
		Tokens: s.TokenRequests, TokensInSecrets: ptr.Deref(s.ServiceAccountTokenInSecrets, false),
		Republish: ptr.Deref(s.RequiresRepublish, false), SELinux: ptr.Deref(s.SELinuxMount, false),
		InfoPeriod: min(ptr.Deref(s.NodeAllocatableUpdatePeriodSeconds, 0), longestPeriod),
	}
	return d
}

// Of is what a pod needs of a CSI volume: of a PersistentVolume, or of an inline volume if pv is nil.
func Of(pod *v1.Pod, volume *v1.Volume, pv *v1.PersistentVolume, readOnly bool) *Spec {
	s := &Spec{
		Target: Target{Pod: pod.UID, Name: volume.Name}, Volume: volume.Name, Namespace: pod.Namespace, PodName: pod.Name,
		ServiceAccount: pod.Spec.ServiceAccountName, Access: v1.ReadWriteOnce,
	}
	if c := pod.Spec.SecurityContext; c != nil {
		s.Group = c.FSGroup
		s.OnMismatch = ptr.Deref(c.FSGroupChangePolicy, v1.FSGroupChangeAlways) == v1.FSGroupChangeOnRootMismatch
	}
	if pv == nil {
		of := volume.CSI
		s.Key = Key{of.Driver, InlineHandle(pod, volume.Name)}
		s.Inline, s.Once, s.FSType, s.Attributes = true, true, ptr.Deref(of.FSType, ""), of.VolumeAttributes
		s.ReadOnly = ptr.Deref(of.ReadOnly, false)
		return s
	}
	of := pv.Spec.CSI
	s.Key, s.Name = Key{of.Driver, of.VolumeHandle}, pv.Name
	s.FSType, s.Attributes, s.MountOptions = of.FSType, of.VolumeAttributes, pv.Spec.MountOptions
	s.ReadOnly = readOnly && !writes(pod, volume)
	s.Block = podspec.IsDevice(pv)
	if len(pv.Spec.AccessModes) > 0 {
		s.Access = pv.Spec.AccessModes[0]
	}
	if pv.Spec.ClaimRef != nil {
		s.Claim, s.ClaimUID = pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID
	}
	s.Once = slices.Contains(pv.Spec.AccessModes, v1.ReadWriteOnce) ||
		slices.Contains(pv.Spec.AccessModes, v1.ReadWriteOncePod)
	return s
}

// writes: another volume that the pod uses has the same claim, not read-only. The claim is published once for both;
// mounts of the one that is read-only are so in the containers.
func writes(pod *v1.Pod, volume *v1.Volume) bool {
	c := volume.PersistentVolumeClaim
	if c == nil {
		return false
	}
	for o := range podspec.Volumes(&pod.Spec) {
		if of := o.PersistentVolumeClaim; of != nil && of.ClaimName == c.ClaimName && !of.ReadOnly {
			return true
		}
	}
	return false
}

// SinglePod: at most one pod at a time may use it.
func (s *Spec) SinglePod() bool { return s.Access == v1.ReadWriteOncePod }

// refused is why the driver can't have such a volume, in words for people.
func (s *Spec) refused(d *Driver) string {
	switch {
	case d == nil:
		return ""
	case s.Inline && d.Missing:
		return fmt.Sprintf("inline volumes need a CSIDriver object: %q does not exist", s.Driver)
	case s.Inline && !d.Inline:
		return fmt.Sprintf("CSI driver %s does not support inline volumes: volumeLifecycleModes of its CSIDriver has no "+
			"Ephemeral", s.Driver)
	case !s.Inline && !d.Persistent:
		return fmt.Sprintf("CSI driver %s does not support persistent volumes: volumeLifecycleModes of its CSIDriver has no "+
			"Persistent", s.Driver)
	}
	return ""
}

// Stage are the parameters of NodeStageVolume.
type Stage struct {
	Key
	// Name is that of the PersistentVolume.
	Name         string
	Block        bool
	FSType       string
	MountOptions []string
	Access       v1.PersistentVolumeAccessMode
	Attributes   map[string]string
	Context      map[string]string
	// Group is for drivers that set it themselves.
	Group *int64
	// NoSecret is why Secrets can't be had; empty if they can.
	Secrets  map[string]string
	NoSecret string
	// Label is the SELinux label to mount with; empty for none.
	Label string
	// Fresh: nothing was staged before, so there is nothing to keep if it fails.
	Fresh bool
}

// Same: both stage a volume alike. Secrets may differ: they are renewed.
func (s Stage) Same(o Stage) bool {
	s.Secrets, o.Secrets, s.NoSecret, o.NoSecret, s.Fresh, o.Fresh = nil, nil, "", "", false, false
	return reflect.DeepEqual(s, o)
}

// stage is how a volume is staged for a pod.
func (v *Volume) stage(p *Publication) Stage {
	s := p.Spec
	return Stage{
		Key: s.Key, Name: s.Name, Block: s.Block, FSType: s.FSType, MountOptions: s.MountOptions, Access: s.Access,
		Attributes: s.Attributes, Context: v.Context, Group: s.Group, Secrets: s.StageSecrets, NoSecret: s.NoStageSecret,
		Label: v.labelFor(p),
	}
}

// Publish are the parameters of NodePublishVolume.
type Publish struct {
	Key
	Target
	// Volume is its name in the pod.
	Volume                  string
	Inline, Block, ReadOnly bool
	FSType                  string
	MountOptions            []string
	Access                  v1.PersistentVolumeAccessMode
	Attributes, Context     map[string]string
	Secrets                 map[string]string
	// Label is the SELinux label to mount with; empty for none.
	Label string
	// Group is the pod's. If the driver can't set it, the agent does if OwnGroup is true; with OnMismatch, unless the
	// top has it.
	Group                *int64
	OwnGroup, OnMismatch bool
	// Node and Attachment are noted beside the volume.
	Node, Attachment string
	// Fresh: nothing was published before.
	Fresh bool
}

// Publishing is how a volume is published, of which a step has just begun.
func (v *Volume) Publishing(t Target, d *Driver, node string) Publish {
	s := v.Targets[t].Spec
	out := Publish{
		Key: s.Key, Target: s.Target, Volume: s.Volume, Inline: s.Inline, Block: s.Block, ReadOnly: s.ReadOnly,
		FSType: s.FSType, MountOptions: s.MountOptions, Access: s.Access, Attributes: maps.Clone(s.Attributes),
		Context: v.Context, Secrets: maps.Clone(s.PublishSecrets), Group: s.Group, OnMismatch: s.OnMismatch,
		OwnGroup: s.ownGroup(d), Node: node, Attachment: AttachmentName(s.Key, node),
		Fresh: v.before == None,
	}
	if out.Attributes == nil {
		out.Attributes = map[string]string{}
	}
	if out.Secrets == nil {
		out.Secrets = map[string]string{}
	}
	if !v.Inline {
		out.Label = v.Label
	}
	if d.PodInfo {
		maps.Copy(out.Attributes, map[string]string{
			"csi.storage.k8s.io/pod.name":            s.PodName,
			"csi.storage.k8s.io/pod.namespace":       s.Namespace,
			"csi.storage.k8s.io/pod.uid":             string(s.Pod),
			"csi.storage.k8s.io/serviceAccount.name": s.ServiceAccount,
			"csi.storage.k8s.io/ephemeral":           strconv.FormatBool(s.Inline),
		})
	}
	return out
}

// AddToken adds the tokens of the pod's service account, as the value of an attribute or secret; empty for none.
func (p *Publish) AddToken(d *Driver, token string) {
	if token == "" {
		return
	}
	into := p.Attributes
	if d.TokensInSecrets {
		into = p.Secrets
	}
	into[tokens] = token
}

// tokens is the attribute with the tokens of the pod's service account.
const tokens = "csi.storage.k8s.io/serviceAccount.tokens"

// ownGroup: the agent gives the files of the volume to the pod's fsGroup.
func (s *Spec) ownGroup(d *Driver) bool {
	switch {
	case s.Group == nil || s.ReadOnly || s.Block:
		return false
	case d.Group == storagev1.FileFSGroupPolicy:
		return true
	case d.Group == storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy:
		return s.FSType != "" && s.Once
	default:
		return false
	}
}

// Walks reports whether a step that has begun goes through all files of the volume: that may take hours, and goes on
// for as long as the pod needs it. A publication that is repeated does so, too: the driver may have written new files.
func (v *Volume) Walks(s Step, d *Driver) bool {
	p := v.Targets[s.Target]
	return s.Op == PublishVolume && p != nil && p.Spec != nil && d != nil && p.Spec.ownGroup(d)
}

// UniqueName is the name of a volume in the status of Nodes.
func (k Key) UniqueName() v1.UniqueVolumeName {
	return v1.UniqueVolumeName("kubernetes.io/csi/" + k.Driver + "^" + k.Handle)
}

// AttachmentName is the name of the VolumeAttachment of a volume on a node.
func AttachmentName(k Key, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(k.Handle+k.Driver+node)))
}

// InlineHandle is the handle of an inline volume.
func InlineHandle(pod *v1.Pod, name string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(pod.UID)+name)))
}

// AttachmentOf is what a VolumeAttachment says: the context of the attachment, or why the volume is not attached.
func AttachmentOf(o *storagev1.VolumeAttachment) (map[string]string, string) {
	switch {
	case o.DeletionTimestamp != nil:
		return nil, fmt.Sprintf("VolumeAttachment %s is being deleted", o.Name)
	case o.Status.Attached: // also if a later try to attach it again has failed
		return o.Status.AttachmentMetadata, ""
	case o.Status.AttachError != nil:
		return nil, o.Status.AttachError.Message
	}
	return nil, fmt.Sprintf("VolumeAttachment %s is not attached yet", o.Name)
}

// Exhausted is the message of a VolumeAttachment that says that the node has no room for the volume
// (status.attachError.errorCode ResourceExhausted, KEP-4876); empty if it does not.
func Exhausted(o *storagev1.VolumeAttachment) string {
	e := o.Status.AttachError
	if o.DeletionTimestamp != nil || o.Status.Attached || e == nil || ptr.Deref(e.ErrorCode, 0) != resourceExhausted {
		return ""
	}
	return cmp.Or(e.Message, "ResourceExhausted")
}

// resourceExhausted is the gRPC code.
const resourceExhausted = 8

// Found is what an earlier agent left of a volume, as its notes beside it say.
type Found struct {
	Key
	// Target is that of a publication. A staging has no pod, and a name only if it is of a device.
	Target        Target
	Inline, Block bool
	// Label is the SELinux label that it was mounted with; empty for none.
	Label string
	// Held says why a staged volume must stay, although no pod is known to have it published; empty: it need not.
	Held string
}

// Lost is a staged volume whose notes can't be read: its driver, and the name of its directory, which is the SHA-256 of
// its handle in hexadecimal digits.
type Lost struct {
	Driver, Dir string
	// Held is that of Found.
	Held string
	// Why says which notes can't be read, and why.
	Why string
}

// Among finds what was lost among volumes by their unique names, as the status of a Node has them.
func (l Lost) Among(names []v1.UniqueVolumeName) (k Key, is bool) {
	for _, name := range names {
		handle, of := strings.CutPrefix(string(name), string(Key{Driver: l.Driver}.UniqueName()))
		if k = (Key{l.Driver, handle}); of && k.Dir() == l.Dir {
			return k, true
		}
	}
	return Key{}, false
}

// Dir is the name of the directory where a volume is staged, in that of its driver.
func (k Key) Dir() string { return fmt.Sprintf("%x", sha256.Sum256([]byte(k.Handle))) }
