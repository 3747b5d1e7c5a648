// Package probes is the actor that probes the containers of a node. It owns the
// schedules of all probes, runs probes as effects, and tells a pod's actor when the
// health of one of its containers changes.
//
//	pod ──Watch──► probes ──ExecSync──► runtime
//	                      ──ProbeHTTP, ProbeTCP, ProbeGRPC──► network
//	pod ◄──Probed── probes        probes ──Save, Load──► checkpoints
//
// There is one timer, for the probe that is due first. Regular probes run on a time
// grid, so the probes of one node share timer wake-ups. Each probe has its own lane, so
// a probe that hangs delays only itself. Probes use their own pools of slots. A result
// that changes nothing sends no message.
//
// # Known state after a restart
//
// After a restart of this actor, pods send their requests and what they know again (Restarted).
// After one of a pod's actor, this actor has the health. After one of the agent, a container's
// status in the API holds until there are results. A static pod may have no status there, so its
// containers' last health is in a checkpoint.
package probes

import (
	"errors"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// Message is what the probes actor understands.
//
//sumtype:decl
type Message interface{ isProbesMessage() }

// Watch lists all probed containers of one pod. From a pod actor, on every change. The newest
// counts. Lost: the pod sends it again when this actor restarted or its mailbox was full.
type Watch struct{ pod.ProbeContainers }

// PodsRestarted says that the pods actor restarted, and with it all pod actors. Pods that send no request
// within some minutes are gone. Lost: those are probed without need. Twice: harmless.
type PodsRestarted struct{}

// Query asks for counts and durations of the probes of living containers. From the metrics
// server. Reply must not block. Lost: the sender gives up waiting.
type Query struct{ Reply func([]Tally) }

// due is this actor's own timer.
type due struct{}

// answered is the result of one run of a probe. An unknown ID is late, and is ignored.
type answered struct {
	id     kernel.EffectID
	answer probe.Answer
}

// journaled is the result of reading or writing the checkpoint, or the timer to write it.
type journaled struct{ checkpoint.Event }

// sweep is this actor's own timer, after a PodsRestarted.
type sweep struct{ round uint32 }

func (Watch) isProbesMessage()         {}
func (PodsRestarted) isProbesMessage() {}
func (Query) isProbesMessage()         {}
func (due) isProbesMessage()           {}
func (answered) isProbesMessage()      {}
func (journaled) isProbesMessage()     {}
func (sweep) isProbesMessage()         {}

// Outcome implements kernel.Outcome.
func (m answered) Outcome() (kernel.EffectID, error) {
	if v := m.answer.Verdict; v == probe.Failed || v == probe.Errored {
		return m.id, errors.New(m.answer.Output)
	}
	return m.id, nil
}

// MailboxKey implements kernel.Keyed.
func (m Watch) MailboxKey() string { return string(m.Pod.UID) }
