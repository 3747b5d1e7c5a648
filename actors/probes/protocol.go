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
// # What is known after a restart
//
// Of this actor: pods say again what they want and what they know (Restarted).
// Of a pod's actor: this one knows. Of the agent: what a pod's status in the API
// says of a container holds until there are answers; a static pod may have no
// status there, so what was last known of its containers is in a checkpoint.
package probes

import (
	"errors"
	"strconv"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// Message is what the probes actor understands.
//
//sumtype:decl
type Message interface{ isProbesMessage() }

// Watch is all that is to be probed of one pod now. From a pod actor, whenever
// that changes. The newest counts. Lost: the pod says it again when told that
// this actor restarted; this one is told of a full mailbox.
type Watch struct{ pod.ProbeContainers }

// Doubt says that the pods actor restarted, and with it all pod actors: what
// they do not say again within some minutes is of pods that are no more. Lost:
// those are still probed, without need. Twice: harmless.
type Doubt struct{}

// Query asks how often the probes of living containers ran, and how long they
// took. From what serves metrics. Reply must not block. Lost: whoever asks gives
// up waiting.
type Query struct{ Reply func([]Tally) }

// due is this actor's own timer.
type due struct{}

// answered is the result of one run of a probe. One with an ID that nobody waits
// for is late, and says nothing.
type answered struct {
	id     kernel.EffectID
	answer probe.Answer
}

// loaded is the checkpoint of an earlier agent.
type loaded struct {
	id   kernel.EffectID
	data []byte
	err  error
}

// save is this actor's own timer: the checkpoint is to be written. saved is its
// result.
type save struct{}
type saved struct {
	id  kernel.EffectID
	err error
}

// sweep is this actor's own timer, after a Doubt.
type sweep struct{ round uint32 }

// missed is this actor's own timer, after its mailbox was full.
type missed struct{}

func (Watch) isProbesMessage()    {}
func (Doubt) isProbesMessage()    {}
func (Query) isProbesMessage()    {}
func (due) isProbesMessage()      {}
func (answered) isProbesMessage() {}
func (loaded) isProbesMessage()   {}
func (save) isProbesMessage()     {}
func (saved) isProbesMessage()    {}
func (sweep) isProbesMessage()    {}
func (missed) isProbesMessage()   {}

// Outcome implements kernel.Outcome.
func (m answered) Outcome() (kernel.EffectID, error) {
	if v := m.answer.Verdict; v == probe.Failed || v == probe.Errored {
		return m.id, errors.New(m.answer.Output)
	}
	return m.id, nil
}

// MailboxKey implements kernel.Keyed.
func (m Watch) MailboxKey() string { return string(m.Pod.UID) }

// AppendTrace implements kernel.Traced.
func (m Watch) AppendTrace(b []byte) []byte {
	b = append(b, m.Pod.UID...)
	for i := range m.Containers {
		b = append(append(b, 0), m.Containers[i].ID...)
	}
	return b
}

// AppendTrace implements kernel.Traced.
func (m answered) AppendTrace(b []byte) []byte {
	return append(strconv.AppendUint(b, uint64(m.id), 10), byte(m.answer.Verdict))
}
