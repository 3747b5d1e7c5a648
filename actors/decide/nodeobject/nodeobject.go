package nodeobject

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Own is the node's configuration. It is immutable.
type Own struct {
	Name string
	// Labels and Annotations are set at registration. Meta has those that are also set on a node that is there already.
	Labels      map[string]string
	Annotations map[string]string
	// Taints and Unschedulable are set at registration. Later only others change them: the apiserver
	// does not let a node change its own taints (admission plugin NodeRestriction).
	Taints        []v1.Taint
	Unschedulable bool
	// ProviderID is the machine's ID at its cloud, empty for none. Once set it stays.
	ProviderID string
	// Cloud: a cloud's controller sets the addresses, once it has run (--cloud-provider=external).
	Cloud bool
	// Declared are features that a scheduler must know before it assigns pods that use them, sorted
	// (status.declaredFeatures, KEP-5328).
	Declared []string
	// Port is the port of the node's server (status.daemonEndpoints), 0 for none.
	Port int32
	// Unserved are extended resources that the node shows as 0 until a device plugin serves them (Facts.Devices).
	Unserved []v1.ResourceName
}

// Facts are what is known about machine and runtime. They are immutable.
type Facts struct {
	Capacity, Allocatable v1.ResourceList
	// Devices are those of device plugins, by their resource.
	Devices   map[v1.ResourceName]Devices
	Addresses []v1.NodeAddress
	// Info is complete except for the runtime's version, which is RuntimeVersion.
	Info           v1.NodeSystemInfo
	RuntimeVersion string
	// Handlers and Features are nil until the runtime reports them.
	Handlers []v1.NodeRuntimeHandler
	Features *v1.NodeFeatures
	// Images are nil until they are listed.
	Images []v1.ContainerImage
	// Problems say why the node is not ready; empty if it is.
	Problems []string
	// Pressures.
	Memory, Disk, PID bool
	// InUse are the volumes that may be in use, sorted; nil while they are not known. The attach-detach controller does
	// not detach them.
	InUse []v1.UniqueVolumeName
	// Reset: the extended resources that the Node has are set to 0, because nobody knows whose they are.
	Reset bool
}

// New is the Node object for the registration.
func New(own *Own, f *Facts, now time.Time) *v1.Node {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: own.Name, Labels: maps.Clone(own.Labels), Annotations: maps.Clone(own.Annotations),
		},
		Spec: v1.NodeSpec{Taints: slices.Clone(own.Taints), Unschedulable: own.Unschedulable, ProviderID: own.ProviderID},
	}
	if own.Unschedulable {
		taint := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
		if !slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.MatchTaint(&taint) }) {
			n.Spec.Taints = append(n.Spec.Taints, taint)
		}
	}
	n.Status, _ = Status(own, f, &v1.NodeStatus{}, now)
	return n
}

// Again is how a node registers whose object a client has deleted: as own, and cordoned if last, its last object, was.
// An operator who drains a node and deletes it does not want new pods on it. last is nil if it is not known.
func Again(own *Own, last *v1.Node) *Own {
	if last == nil || !last.Spec.Unschedulable || own.Unschedulable {
		return own
	}
	out := *own
	out.Unschedulable = true
	return &out
}

// Status is the new status for have, and whether it differs in more than heartbeat times. Fields of
// others stay.
func Status(own *Own, f *Facts, have *v1.NodeStatus, now time.Time) (v1.NodeStatus, bool) {
	out := *have
	out.Capacity, out.Allocatable = resources(own, f, have)
	out.Addresses = own.addresses(f.Addresses, have.Addresses)
	out.NodeInfo = f.Info
	out.NodeInfo.ContainerRuntimeVersion = f.RuntimeVersion
	if f.Images != nil {
		out.Images = f.Images
	}
	if f.Handlers != nil {
		out.RuntimeHandlers = f.Handlers
	}
	if f.Features != nil {
		out.Features = f.Features
	}
	if len(own.Declared) > 0 {
		out.DeclaredFeatures = own.Declared
	}
	if f.InUse != nil {
		out.VolumesInUse = f.InUse
	}
	out.DaemonEndpoints.KubeletEndpoint.Port = own.Port
	var moved bool
	out.Conditions, moved = conditions(f, have.Conditions, metav1.NewTime(now).Rfc3339Copy())
	differs := moved || out.DaemonEndpoints != have.DaemonEndpoints ||
		!podspec.SameResources(out.Capacity, have.Capacity) || !podspec.SameResources(out.Allocatable, have.Allocatable) ||
		!slices.Equal(out.Addresses, have.Addresses) || !slices.Equal(out.VolumesInUse, have.VolumesInUse) ||
		// An apiserver that does not know the field always drops it.
		len(have.DeclaredFeatures) > 0 && !slices.Equal(out.DeclaredFeatures, have.DeclaredFeatures) ||
		!apiequality.Semantic.DeepEqual(&out.NodeInfo, &have.NodeInfo) ||
		!apiequality.Semantic.DeepEqual(out.RuntimeHandlers, have.RuntimeHandlers) ||
		!apiequality.Semantic.DeepEqual(out.Features, have.Features) ||
		!apiequality.Semantic.DeepEqual(out.Images, have.Images)
	return out, differs
}

// Reasons and messages of conditions, in the kubelet's words: tools know the reasons, and people search for the
// messages.
func verdicts(f *Facts) [4]v1.NodeCondition {
	pressure := func(t v1.NodeConditionType, is bool, yes, no, short, well string) v1.NodeCondition {
		if is {
			return v1.NodeCondition{Type: t, Status: v1.ConditionTrue, Reason: yes, Message: "kubelet has " + short}
		}
		return v1.NodeCondition{Type: t, Status: v1.ConditionFalse, Reason: no, Message: "kubelet has " + well}
	}
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady",
		Message: "kubelet is posting ready status"}
	if len(f.Problems) > 0 {
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, "KubeletNotReady", strings.Join(f.Problems, ", ")
	}
	if len(f.Problems) > 1 {
		ready.Message = "[" + ready.Message + "]"
	}
	return [...]v1.NodeCondition{
		pressure(v1.NodeMemoryPressure, f.Memory, "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory",
			"insufficient memory available", "sufficient memory available"),
		pressure(v1.NodeDiskPressure, f.Disk, "KubeletHasDiskPressure", "KubeletHasNoDiskPressure",
			"disk pressure", "no disk pressure"),
		pressure(v1.NodePIDPressure, f.PID, "KubeletHasInsufficientPID", "KubeletHasSufficientPID",
			"insufficient PID available", "sufficient PID available"),
		ready,
	}
}

// conditions replaces the node's own conditions in the list, and says whether any of them changed.
func conditions(f *Facts, have []v1.NodeCondition, now metav1.Time) (out []v1.NodeCondition, moved bool) {
	out = slices.Clone(have)
	for _, v := range verdicts(f) {
		v.LastHeartbeatTime, v.LastTransitionTime = now, now
		i := slices.IndexFunc(out, func(c v1.NodeCondition) bool { return c.Type == v.Type })
		if i < 0 {
			out, moved = append(out, v), true
			continue
		}
		if out[i].Status == v.Status {
			v.LastTransitionTime = out[i].LastTransitionTime
		}
		moved = moved || out[i].Status != v.Status || out[i].Reason != v.Reason || out[i].Message != v.Message
		out[i] = v
	}
	return out, moved
}

// Ready says whether the condition Ready is true.
func Ready(s *v1.NodeStatus) bool {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// RuntimeVersion is status.nodeInfo.containerRuntimeVersion, such as containerd://2.1.0. Programs parse it, so it has
// the version without a v, which containerd writes before it, and without what a distribution adds (1.6.20~ds1).
func RuntimeVersion(name, text string) string {
	parsed, err := version.ParseSemantic(text)
	if err != nil {
		parsed, err = version.ParseGeneric(text)
	}
	if err == nil {
		text = parsed.String()
	}
	return name + "://" + text
}
