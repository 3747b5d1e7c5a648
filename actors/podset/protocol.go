// Package podset is the registry of the pods of this node. It merges the sources, admits pods, has pods begin and end
// an actor for each, and sends each actor what is desired. Its decisions are in decide/podset and decide/podresize.
//
// It is the parent of nobody. A panic here restarts this actor alone. The actors of pods go on, and the next
// incarnation finds them, see children.go (docs/decisions/0125).
//
// Views are not computed here: podview asks for the state (Inventory), and mirrors gets the static pods.
//
//	sources ──Update──► podset ──Begin, End, List──► pods ──Begun──► podset
//	podset ──Assign──► pod ──Ask, Report, Finished──► podset
//	pleg ──Snapshot, Seen──► podset ──RuntimeSeen──► pod
//	gc ──Abandoned──► podset ──Collect──► gc ──Collected──► podset       podset ──Forget──► images
//	podview ──Query──► podset ──Inventory──► podview
//	podset ──Place, Release──► assignments ──Placed──► podset
//
// On a node of a cluster also:
//
//	apipods ──Update, Renewed, Forced──► podset      podset ──ReadNode──► nodestatus ──NodeSeen, NodeRead──► podset
//	podset ──Show, Forget──► status      podset ──Statics──► mirrors
package podset

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/sources"
)

// Message is what the podset actor understands.
//
//sumtype:decl
type Message interface{ isPodsetMessage() }

// Wanted is the desired state of one source. From sources. The newest counts.
type Wanted struct{ sources.Update }

// Remade says that the manifests of static pods were removed and are there again. They end, and then begin again if
// they are still wanted, as if each had been seen. From sources, before the Wanted with what the manifests say now.
// Lost: they run on. Twice: as once, unless they have begun again meanwhile.
type Remade struct{ UIDs []types.UID }

// Forced says that a pod that is gone from the apiserver was deleted by force. From apipods, with the Wanted without
// it, which may have taken the place of one that said so. Lost: it has the rest of its grace period. Twice: as once.
type Forced struct{ UID types.UID }

// Renewed is a newer version of a pod of the apiserver that changes nothing for this node. From
// apipods, when the phase or readiness in its status changed, so that the older version can be
// freed. Lost, late or twice: harmless.
type Renewed struct{ Pod *v1.Pod }

// Listed is the first list of the runtime. From pleg.
type Listed struct{ pleg.Snapshot }

// Seen is relayed to its pod. From pleg.
type Seen struct{ pleg.Seen }

// Begun says that a pod has an actor. From pods, in answer to pods.Begin. Lost: pods is asked for all of them, and then
// for this one again. Twice: the pod is assigned twice, which is harmless.
type Begun struct {
	pods.Child
	// Old: it had one before. This actor has restarted, or has missed the answer.
	Old bool
}

// Children are all pods that have an actor: the answer of pods to pods.List. Lost: asked again. Twice: as once.
type Children struct{ All []pods.Child }

// ListChildren has this actor ask for Children. From pods, which restarted and has none, or which missed messages.
type ListChildren struct{}

// Asked is from a restarted pod actor. Assign answers it.
type Asked struct{ pod.Ask }

// Reported is from a pod actor whose status changed. The newest counts.
type Reported struct{ pod.Report }

// Finished is from a pod actor: nothing of the pod runs or is mounted.
type Finished struct{ pod.Finished }

// NoteRestart is from a pod actor that is about to stop a container to restart it. pod.Noted
// answers it. Lost: the container runs on until all pods get Repeat. Twice: written once.
type NoteRestart struct{ pod.NoteRestart }

// InPlace is from a pod actor: its containers run where they were told to, and have left what they had before a resize.
// Lost: sent again when all pods get Repeat; until then nobody else gets what they have left. Twice: as once.
type InPlace struct{ pod.InPlace }

// Abandoned is from gc: there are directories of a pod that is unknown, or was rejected. Collect answers it and keeps a
// pod of that UID from starting meanwhile. Lost: the next sweep finds them. Twice: done once.
type Abandoned struct{ UID types.UID }

// BeingCollected is from gc, in answer to gc.ListCollecting: the pods that it is removing. None of them
// starts before the removal is done. Lost: asked again. Twice: only the first counts.
type BeingCollected struct{ Pods []observed.PodRef }

// AskCollecting is this actor's own timer: it asks gc again for BeingCollected. Once also from node,
// after it was restarted with all actors below it. Lost with a crash of this actor, which then asks itself.
type AskCollecting struct{}

// Collected is from gc: nothing is left of a pod on this node or, if Stuck, only what the runtime
// fails to remove. Lost: the pod is collected again when gc restarts or all pods get Repeat.
// Twice: the second has no record and is ignored.
type Collected struct {
	UID   types.UID
	Stuck bool
}

// Placed says what containers have to themselves alone, and what all others share. From assignments, in answer to Place
// and when the shared CPUs have changed. Lost: asked again. Twice: as once.
type Placed struct{ assignments.Answer }

// AskAgain is from an actor that serves requests of pods, and that restarted or missed messages.
// Pods send their requests again, a few at a time. Lost: all pods get Repeat. Twice: they are
// asked once more.
type AskAgain struct{}

// Repeat is this actor's own timer: the next few pods repeat their reports or requests.
type Repeat struct{}

// Crashed is from the kernel: an actor of the node crashed, perhaps that of a pod.
type Crashed struct{ Report *kernel.CrashReport }

// Query asks for the state of all pods, or of those of a name. From podview, and from the health check. Reply must do
// no more than send a message. Lost: the sender gives up waiting.
type Query struct {
	Namespace, Name string
	Reply           func(Inventory)
}

// NodeSeen is the apiserver's object of this node, or what the machine has in that form. Published by nodestatus when
// its labels or taints changed, or by machine.
type NodeSeen struct{ Node *v1.Node }

// NodeRead says that the Node was read, or can't be, since this actor asked for that. From nodestatus, after the
// NodeSeen of what was new. Lost: asked again. Twice: as once.
type NodeRead struct{ Number uint64 }

// AskNode is this actor's own timer: it asks again for the Node to be read.
type AskNode struct{}

// Behind is this actor's own timer: people are told why a pod still waits for another. Again: they were before.
type Behind struct {
	UID, Other types.UID
	Again      bool
}

// NodePressure says which resources of the node run short: new pods may be refused. Published by eviction.
type NodePressure struct{ admit.Pressure }

// ShuttingDown says that the machine is shutting down, or no longer is: new pods are refused. Published by
// shutdown.
type ShuttingDown struct{ On bool }

// Evict ends a pod to protect the node or other pods. From eviction, shutdown and csi. Stop says how, and what
// the pod's status says then. The stop is saved before the first signal, so that an agent that is killed
// meanwhile continues it. Twice: the pod ends at the earlier time, for the first reason. A pod that is not
// known, was rejected or has ended is ignored. Lost: the sender measures again.
type Evict struct {
	UID  types.UID
	Stop podlife.Stop
}

// ShowAgain asks for everything that status gets. From there, after a restart.
type ShowAgain struct{}

// journaled is the result of reading or writing a checkpoint, or the timer after a failed write.
type journaled struct{ checkpoint.Event }

// Living asks which pods must not be collected. From gc, resources and claims. Until all sources have
// reported, all is false: there may be pods that are not known yet. Reply must do no more than send
// a message. Lost: asked again.
type Living struct {
	// Spent, for gc: a pod whose dead containers and logs can go is in living as false. It is one that this node has
	// evicted; with Ended, any of the apiserver that never runs again.
	Spent, Ended bool
	// Up leaves out pods of which nothing runs or is mounted: those that were not admitted, and those that have ended.
	Up    bool
	Reply func(living map[types.UID]bool, all bool)
}

func (NoteRestart) isPodsetMessage() {}
func (InPlace) isPodsetMessage()     {}
func (Abandoned) isPodsetMessage()   {}

func (BeingCollected) isPodsetMessage() {}
func (AskCollecting) isPodsetMessage()  {}

func (Placed) isPodsetMessage()    {}
func (journaled) isPodsetMessage() {}
func (Wanted) isPodsetMessage()    {}
func (Remade) isPodsetMessage()    {}
func (Renewed) isPodsetMessage()   {}
func (Forced) isPodsetMessage()    {}
func (Listed) isPodsetMessage()    {}
func (Seen) isPodsetMessage()      {}
func (Begun) isPodsetMessage()     {}
func (Children) isPodsetMessage()  {}
func (Asked) isPodsetMessage()     {}
func (Reported) isPodsetMessage()  {}
func (Finished) isPodsetMessage()  {}
func (Collected) isPodsetMessage() {}
func (AskAgain) isPodsetMessage()  {}
func (Repeat) isPodsetMessage()    {}
func (Crashed) isPodsetMessage()   {}
func (Query) isPodsetMessage()     {}
func (Living) isPodsetMessage()    {}
func (NodeSeen) isPodsetMessage()  {}
func (NodeRead) isPodsetMessage()  {}
func (Behind) isPodsetMessage()    {}
func (AskNode) isPodsetMessage()   {}
func (ShowAgain) isPodsetMessage() {}

func (NodePressure) isPodsetMessage() {}
func (ShuttingDown) isPodsetMessage() {}
func (Evict) isPodsetMessage()        {}

func (ListChildren) isPodsetMessage() {}

// MailboxKey implements kernel.Keyed.
func (NodePressure) MailboxKey() string { return "pressure" }

// MailboxKey implements kernel.Keyed.
func (ShuttingDown) MailboxKey() string { return "shutdown" }

// MailboxKey implements kernel.Keyed.
func (m Wanted) MailboxKey() string { return "wanted/" + string(m.Source) }

// MailboxKey implements kernel.Keyed.
func (m Reported) MailboxKey() string { return "reported/" + string(m.UID) }
