package node

import (
	"context"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/whynot"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/supervisor/eventlog"
)

// shown is what the pods actor shows, and of each pod why it is not ready.
func (d *running) shown(ctx context.Context, events *eventlog.Log) (pods.View, error) {
	v, err := d.pods(ctx)
	if err != nil {
		return v, err
	}
	now := time.Now()
	var calls map[string][]whynot.Call // nobody looks for them while all are ready
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.Ready && p.Life == podlife.Syncing.String() && p.Problem == "" {
			continue
		}
		if calls == nil {
			calls = callsOf(d.system.Snapshot(d.name), &v)
		}
		var warnings []whynot.Warning
		for _, e := range events.Warnings(p.Namespace + "/" + p.Name) {
			warnings = append(warnings, whynot.Warning{Container: e.Container, Reason: e.Reason, Message: e.Message})
		}
		if a := whynot.Explain(why(now, &v, p, calls[string(p.UID)], warnings)); a.Text != "" {
			p.Why = &a
		}
	}
	return v, nil
}

// why puts together what is known of one pod.
func why(now time.Time, v *pods.View, p *pods.PodView, calls []whynot.Call, warnings []whynot.Warning) *whynot.Input {
	in := &whynot.Input{
		Now: now, Namespace: p.Namespace, Name: p.Name, Life: p.Life, Phase: p.Phase, Ready: p.Ready, Reason: p.Reason, Message: p.Message,
		Problem: p.Problem, Unready: p.Unready, Calls: calls, Warnings: warnings, Missing: v.WaitingFor,
	}
	if v.Runtime != nil {
		in.Runtime, in.RuntimeSince = v.Runtime.Message, v.Runtime.Since
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		out := whynot.Container{
			Name: c.Name, Image: c.Image, Kind: c.Kind, State: c.State, Ready: c.Ready, Restarts: c.Restarts,
			Reason: c.Reason, Message: c.Message,
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

// callsOf are the calls under way by the UID of the pod that they are for. A
// pull is for all pods that wait for its image.
func callsOf(actors []kernel.ActorInfo, v *pods.View) map[string][]whynot.Call {
	images := map[string][]string{}
	for i := range v.Pods {
		for _, c := range v.Pods[i].Containers {
			if uid := string(v.Pods[i].UID); c.State == "waiting" && (len(images[c.Image]) == 0 || images[c.Image][len(images[c.Image])-1] != uid) {
				images[c.Image] = append(images[c.Image], uid)
			}
		}
	}
	out := map[string][]whynot.Call{}
	for i := range actors {
		a := &actors[i]
		for _, e := range a.Effects {
			if e.Standing {
				continue
			}
			c := whynot.Call{
				What: e.Kind, Object: e.Object, Queued: e.Phase == kernel.EffectQueued, Overdue: e.Phase == kernel.EffectExpired,
				Since: e.Since, Patience: e.Patience, Probe: a.Kind == "probes",
			}
			switch of := images[e.Object]; {
			case e.For != "":
				out[e.For] = append(out[e.For], c)
			case a.Kind == "pod":
				uid := a.Path[strings.LastIndexByte(a.Path, '/')+1:]
				out[uid] = append(out[uid], c)
			default:
				for _, uid := range of {
					out[uid] = append(out[uid], c)
				}
			}
		}
	}
	return out
}
