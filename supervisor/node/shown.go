package node

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/whynot"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podview"
)

// shown is what podview shows, and of each pod why it is not ready.
func (d *nodeDaemon) shown(ctx context.Context) (podview.View, error) {
	v, err := d.pods(ctx)
	if err != nil {
		return v, err
	}
	now := time.Now()
	var underWay map[types.UID][]podview.Call // not looked for while all pods are ready
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.Ready && p.Life == podlife.Syncing.String() && p.Problem == "" {
			continue
		}
		if underWay == nil {
			underWay = podview.CallsOf(d.system.Snapshot(d.name), v.Pods)
		}
		var warnings []whynot.Warning
		for _, e := range d.events.Warnings(p.Namespace + "/" + p.Name) {
			warnings = append(warnings, whynot.Warning{Container: e.Container, Reason: e.Reason, Message: e.Message})
		}
		if a := whynot.Explain(why(now, &v, p, calls(underWay[p.UID]), warnings)); a.Text != "" {
			p.Why = &a
		}
	}
	return v, nil
}

// why collects the known facts of one pod.
func why(now time.Time, v *podview.View, p *podview.Pod, calls []whynot.Call, warnings []whynot.Warning) *whynot.Input {
	in := &whynot.Input{
		Now: now, Namespace: p.Namespace, Name: p.Name, Life: p.Life, Phase: p.Phase, Ready: p.Ready,
		Reason: p.Reason, Message: p.Message,
		Problem: p.Problem, Unready: p.Unready, Calls: calls, Warnings: warnings, Missing: v.WaitingFor,
	}
	if v.Runtime != nil {
		in.Runtime, in.RuntimeSince = v.Runtime.Message, v.Runtime.Since
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		out := whynot.Container{
			Name: c.Name, Image: c.Image, Kind: c.Kind, State: c.State, Ready: c.Ready, Restarts: c.Restarts,
			Reason: c.Reason, Message: c.Message, Gate: c.Gate,
		}
		if c.ExitCode != nil {
			out.ExitCode = *c.ExitCode
		}
		if c.Last != nil {
			out.Last = &whynot.End{Reason: c.Last.Reason, ExitCode: c.Last.ExitCode}
			if c.Last.FinishedAt != nil {
				out.Last.At = *c.Last.FinishedAt
			}
		}
		in.Containers = append(in.Containers, out)
	}
	return in
}

// calls are those of one pod, as whynot has them.
func calls(all []podview.Call) (out []whynot.Call) {
	for _, c := range all {
		out = append(out, whynot.Call{
			What: c.Kind, Object: c.Object, Queued: c.Phase == kernel.EffectQueued, Overdue: c.Phase == kernel.EffectExpired,
			Since: c.Since, Patience: c.Patience, Probe: c.Actor == "probes",
		})
	}
	return out
}
