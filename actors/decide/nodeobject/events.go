package nodeobject

import (
	v1 "k8s.io/api/core/v1"
)

// Event is an event of the node, with a reason that tools know.
type Event struct {
	Warning         bool
	Reason, Message string
}

// Starting is the event of an agent that starts. Programs that count restarts look for this text.
func Starting() Event {
	return Event{Reason: "Starting", Message: "Starting kubelet."}
}

// Events are the events for a change of the node's status from before to after. before is empty for
// a new node.
func Events(name string, before, after *v1.NodeStatus) []Event {
	var out []Event
	if was, is := before.NodeInfo.BootID, after.NodeInfo.BootID; was != "" && is != "" && was != is {
		out = append(out,
			Event{Warning: true, Reason: "Rebooted", Message: "Node " + name + " has been rebooted, boot id: " + is})
	}
	for _, kind := range [...]v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure,
		v1.NodePIDPressure, v1.NodeReady} {
		was, is := statusOf(before, kind), statusOf(after, kind)
		if was == is || is == "" || kind == v1.NodeReady && was == "" && is != v1.ConditionTrue {
			continue // a new Node that is not ready yet has not become so
		}
		reason := reasons[kind][0]
		if is != v1.ConditionTrue {
			reason = reasons[kind][1]
		}
		out = append(out, Event{Reason: reason, Message: "Node " + name + " status is now: " + reason})
	}
	return out
}

// reasons are the reasons of true and of false conditions.
var reasons = map[v1.NodeConditionType][2]string{
	v1.NodeMemoryPressure: {"NodeHasInsufficientMemory", "NodeHasSufficientMemory"},
	v1.NodeDiskPressure:   {"NodeHasDiskPressure", "NodeHasNoDiskPressure"},
	v1.NodePIDPressure:    {"NodeHasInsufficientPID", "NodeHasSufficientPID"},
	v1.NodeReady:          {"NodeReady", "NodeNotReady"},
}

// Schedulable is the event for a node that was cordoned or uncordoned (kubectl cordon).
func Schedulable(name string, closed bool) Event {
	reason := "NodeSchedulable"
	if closed {
		reason = "NodeNotSchedulable"
	}
	return Event{Reason: reason, Message: "Node " + name + " status is now: " + reason}
}

func statusOf(s *v1.NodeStatus, kind v1.NodeConditionType) v1.ConditionStatus {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return s.Conditions[i].Status
		}
	}
	return ""
}
