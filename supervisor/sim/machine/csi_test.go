package machine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

const disks = "disks.example.com"

var (
	csiKey    = csi.Key{Driver: disks, Handle: "h"}
	csiTarget = csi.Target{Pod: "1", Name: "pv"}
	csiOf     = port.CSIDriver{Name: disks}
)

// csiRig makes calls of a driver, and notes what comes of them.
type csiRig struct {
	*testing.T
	v    *kernel.Virtual
	m    *Machine
	ctx  context.Context
	said []string
}

func newCSIRig(t *testing.T, d CSIDriver) *csiRig {
	v, m := faulty("", Fault{})
	m.CSI.Serve(disks, d)
	r := &csiRig{T: t, v: v, m: m, ctx: context.Background()}
	m.CSI.Changed = func(c CSIChange) {
		if c.Worked {
			r.said = append(r.said, c.Op.String())
		}
	}
	v.Advance(time.Second)
	return r
}

// done says how a call ended.
func (r *csiRig) done(err error) {
	text := "ok"
	if err != nil {
		text = port.KindOf(err).String()
	}
	r.said = append(r.said, text)
}

func (r *csiRig) stage(change ...func(*csi.Stage)) {
	s := csi.Stage{Key: csiKey, Name: "pv", Access: v1.ReadWriteOnce, Fresh: true}
	for _, c := range change {
		c(&s)
	}
	r.m.CSI.StageVolume(r.ctx, csiOf, s, r.done)
}

func (r *csiRig) publish() {
	p := csi.Publish{Key: csiKey, Target: csiTarget, Fresh: true}
	r.m.CSI.PublishVolume(r.ctx, csiOf, p, nil, func(_ string, err error) { r.done(err) })
}

func (r *csiRig) unpublish() {
	r.m.CSI.UnpublishVolume(r.ctx, csiOf, csi.Found{Key: csiKey, Target: csiTarget}, r.done)
}

func (r *csiRig) unstage() { r.m.CSI.UnstageVolume(r.ctx, csiOf, csi.Found{Key: csiKey}, r.done) }

func (r *csiRig) expand(size int64) {
	r.m.CSI.ExpandVolume(r.ctx, csiOf, csi.Expand{Key: csiKey, Pod: "1", Name: "pv", Size: size}, r.done)
}

// places are what there is: s, p with notes, S, P also mounted.
func (r *csiRig) places() (out string) {
	for _, p := range r.m.CSI.Places() {
		name := map[bool]string{false: "s", true: "p"}[p.Target.Pod != ""]
		if p.Mounted {
			name = strings.ToUpper(name)
		}
		if !p.Notes {
			name += "!"
		}
		out += name
	}
	return out
}

// want compares what was said with want, and what there is, once all calls have ended.
func (r *csiRig) want(when, said, places string) {
	r.Helper()
	r.v.Advance(10 * time.Second)
	if got := strings.Join(r.said, " "); got != said || r.places() != places {
		r.Errorf("%s: got %q and %q, want %q and %q", when, got, r.places(), said, places)
	}
	r.said = nil
}

// TestCSILife: a volume is staged, published, expanded and taken down, and a driver does nothing out of order.
func TestCSILife(t *testing.T) {
	r := newCSIRig(t, CSIDriver{})
	r.publish()
	r.want("not staged", "error", "")
	r.stage()
	r.want("staged", "NodeStageVolume ok", "S")
	r.stage(func(s *csi.Stage) { s.FSType, s.Fresh = "xfs", false })
	r.want("staged otherwise", "error", "S")
	r.publish()
	r.want("published", "NodePublishVolume ok", "SP")
	r.expand(5)
	r.want("expanded", "NodeExpandVolume ok", "SP")
	check.Equal(t, r.m.CSI.Size(csiKey), 5, "its size")
	r.unstage()
	r.want("unstaged while it is published", "error", "SP")
	r.m.Host.RemovePod(r.ctx, port.PodDirs{UID: "1"}, r.done)
	r.want("its pod is removed while it is published", "state conflict", "SP")
	r.unpublish()
	r.want("unpublished", "NodeUnpublishVolume ok", "S")
	r.unstage()
	r.want("unstaged", "NodeUnstageVolume ok", "")
	r.unstage()
	r.want("once more", "NodeUnstageVolume ok", "")
}

// TestCSIDriverWithout: a driver may have neither staging nor expansion.
func TestCSIDriverWithout(t *testing.T) {
	r := newCSIRig(t, CSIDriver{PublishOnly: true, Fixed: true})
	r.stage()
	r.want("staged", "ok", "")
	r.publish()
	r.want("published", "NodePublishVolume ok", "P")
	r.expand(5)
	r.want("expanded", "unsupported", "P")
	r.unpublish()
	r.want("unpublished", "NodeUnpublishVolume ok", "")
	r.unstage()
	r.want("unstaged", "ok", "")
}

// TestCSIOneCall: a driver has one call of a volume at a time.
func TestCSIOneCall(t *testing.T) {
	r := newCSIRig(t, CSIDriver{})
	r.stage()
	r.unstage()
	r.want("both at once", "name reserved NodeStageVolume ok", "S")
}

// TestCSIFails: what is left of a call that fails, and of one whose caller is killed.
func TestCSIFails(t *testing.T) {
	fail := func(kind port.ErrorKind) error { return &port.Error{Kind: kind} }
	for name, c := range map[string]struct {
		fault Fault
		// kill is when the caller is.
		kill         time.Duration
		said, places string
	}{
		"refused":                {fault: Fault{Err: fail(port.Other)}, said: "error"},
		"no answer":              {fault: Fault{Err: fail(port.Unavailable)}, said: "unavailable", places: "s"},
		"worked, no answer":      {fault: Fault{Err: fail(port.Unavailable), Works: true}, said: "NodeStageVolume unavailable", places: "S"},
		"hangs":                  {fault: Fault{Hang: true}, places: "s"},
		"late answer":            {fault: Fault{AnswerLate: time.Second}, said: "NodeStageVolume ok", places: "S"},
		"killed before":          {kill: time.Millisecond, said: "canceled"},
		"killed during":          {kill: 10 * time.Millisecond, said: "canceled", places: "s"},
		"killed, driver goes on": {fault: Fault{WorkLate: time.Second}, kill: 10 * time.Millisecond, said: "NodeStageVolume ok", places: "S"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newCSIRig(t, CSIDriver{})
			r.m.SetFault(func(Call) Fault { return c.fault })
			ctx, kill := context.WithCancel(r.ctx)
			defer kill()
			r.ctx = ctx
			r.stage()
			if c.kill > 0 {
				r.v.Advance(c.kill)
				kill()
			}
			r.want("afterwards", c.said, c.places)
		})
	}
}

// TestCSIKilledDuringUndo: the notes go last, and stay if the agent is killed before.
func TestCSIKilledDuringUndo(t *testing.T) {
	r := newCSIRig(t, CSIDriver{})
	r.stage()
	r.v.Advance(time.Second)
	r.said = nil
	ctx, kill := context.WithCancel(r.ctx)
	r.ctx = ctx
	r.unstage()
	r.v.Advance(hostLatency + csiLatencies[csi.UnstageVolume])
	kill()
	r.want("killed", "NodeUnstageVolume canceled", "s")
	var found []csi.Found
	r.m.CSI.FoundVolumes(context.Background(), func(all []csi.Found, _ []csi.Lost, _ []string, _ error) { found = all })
	r.v.Advance(time.Second)
	check.Same(t, found, []csi.Found{{Key: csiKey}}, "found")
}

// TestCSIDriverGoes: a driver that stops is told of, one that crashes is not; calls under way fail. What is mounted
// goes with the power, and the notes stay.
func TestCSIDriverGoes(t *testing.T) {
	r := newCSIRig(t, CSIDriver{Boot: time.Minute, MaxVolumes: 3})
	listen := func() {
		r.m.CSI.Drivers(r.ctx, func(d port.CSIDriver) {
			r.said = append(r.said, fmt.Sprint("gone=", d.Gone))
		}, r.done)
	}
	listen()
	r.want("it is there", "gone=false", "")
	r.m.CSI.NodeInfo(r.ctx, csiOf, func(i csi.Info, err error) { r.said = append(r.said, fmt.Sprint(i.MaxVolumes)); r.done(err) })
	r.want("asked", "3 ok", "")
	r.stage()
	r.v.Advance(20 * time.Millisecond)
	r.m.CSI.Crash(disks)
	r.want("it crashes", "unavailable", "s")
	r.stage()
	r.want("it can't be reached", "not called", "s")
	r.m.CSI.Start(disks)
	r.stage()
	r.want("it is back", "gone=false NodeStageVolume ok", "S")
	r.m.CSI.Stop(disks)
	r.stage()
	r.want("it stops", "gone=true not called", "S")
	r.m.LosePower()
	r.m.CSI.Start(disks)
	r.m.Boot()
	listen()
	r.want("it boots", "", "s")
	r.v.Advance(time.Minute)
	r.want("it has booted", "gone=false", "s")
}
