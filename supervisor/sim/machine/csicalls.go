package machine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/supervisor/internal/csicode"
)

// The verbs of calls of CSI drivers beside the operations of csi.Op.
const (
	watchCSI  = "WatchCSIDrivers"
	infoVerb  = "NodeGetInfo"
	foundVerb = "FoundVolumes"
	statsVerb = "NodeGetVolumeStats"
)

// csiLatencies are ESTIMATES: a file system that is checked and mounted, a bind mount.
var csiLatencies = [...]time.Duration{
	csi.StageVolume: 40 * time.Millisecond, csi.PublishVolume: 5 * time.Millisecond,
	csi.UnpublishVolume: 5 * time.Millisecond, csi.UnstageVolume: 10 * time.Millisecond,
	csi.ExpandVolume: 20 * time.Millisecond,
}

const infoLatency = 2 * time.Millisecond

// csiCall is one call of a driver for a volume.
type csiCall struct {
	ctx    context.Context
	driver *csiDriver
	place  csi.Found
	verb   string
	op     csi.Op
	// late: the driver goes on although its caller has given up.
	late bool
	// over: the driver has ended it, or has ended itself.
	over bool
	done func(error)
	// stage and publish are its parameters.
	stage   *csi.Stage
	publish *csi.Publish
	// fresh: nothing was there before, so nothing is kept if it is refused.
	fresh bool
	// before is what the agent does before it, work what the driver does, after what the agent does then. They are called
	// under the lock. nil: nothing is done; without work, the driver is not asked.
	before, work, after func(*csiCall) error
}

// answer answers once.
func (p *csiCall) answer(err error) {
	if done := p.done; done != nil {
		p.done = nil
		done(err)
	}
}

// busy: the driver has not ended it.
func (p *csiCall) busy() bool { return !p.over && (p.late || p.ctx.Err() == nil) }

// refuse is an answer of the driver's own.
func (p *csiCall) refuse(c codes.Code, detail string) error {
	return csiFailed(csicode.Kind(c), p.verb, p.place.Driver, "rpc error: code = "+c.String()+" desc = "+detail)
}

// call makes a call: it is asked when the notes are written, and then the driver takes its time.
func (c *CSI) call(p *csiCall) {
	p.verb = p.op.String()
	call := Call{
		Verb: p.verb, Pod: string(p.place.Target.Pod), Volume: p.place.Target.Name, Name: p.place.String(),
	}
	var fault Fault
	if c.Fault != nil {
		fault = c.Fault(call)
	}
	c.mu.Lock()
	boot := c.boots
	c.mu.Unlock()
	c.clock.AfterFunc(hostLatency, func() {
		latency, err := c.ask(p, boot, &fault)
		if err != nil {
			p.answer(err)
			return
		}
		if c.Changed != nil && p.work != nil {
			c.Changed(p.change(false))
		}
		if fault.Hang {
			simport.OnEnd(p.ctx, func() { // its caller's end is the call's
				if c.end(p) {
					p.answer(canceled(p.verb))
				}
			})
			return
		}
		c.clock.AfterFunc(latency+fault.Latency+fault.WorkLate, func() { c.work(p, boot, call, &fault) })
	})
}

func (p *csiCall) change(worked bool) CSIChange {
	return CSIChange{
		Op: p.op, Key: p.place.Key, Target: p.place.Target, Stages: !p.driver.PublishOnly, Worked: worked,
		Stage: p.stage, Publish: p.publish,
	}
}

// lost says that the caller has gone, or the machine has lost its power since.
func (c *CSI) lost(p *csiCall, boot int) error {
	if c.boots != boot || p.ctx.Err() != nil {
		return canceled(p.verb)
	}
	return nil
}

// ask reaches the driver, writes notes, and has the driver begin.
func (c *CSI) ask(p *csiCall, boot int, fault *Fault) (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.lost(p, boot); err != nil {
		return 0, err
	}
	s, err := c.reached(p.verb, p.place.Driver)
	if err != nil {
		return 0, err
	}
	p.driver, p.late = s, fault.WorkLate > 0
	if p.before != nil {
		if err := p.before(p); err != nil {
			return 0, err
		}
	}
	c.pending = slices.DeleteFunc(c.pending, func(o *csiCall) bool { return !o.busy() })
	for _, o := range c.pending {
		if o.place.Key == p.place.Key {
			return 0, p.refuse(codes.Aborted, "an operation with the volume is under way")
		}
	}
	c.pending = append(c.pending, p)
	return cmp.Or(s.Latency, csiLatencies[p.op]), nil
}

// end takes a call from a driver, and reports whether it was there.
func (c *CSI) end(p *csiCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := !p.over && slices.Contains(c.pending, p)
	p.over = true
	c.pending = slices.DeleteFunc(c.pending, func(o *csiCall) bool { return o == p })
	return was
}

// work has the driver do a call, and the agent what follows.
func (c *CSI) work(p *csiCall, boot int, call Call, fault *Fault) {
	if !c.end(p) {
		return // the driver has gone, and was answered for
	}
	c.mu.Lock()
	err := c.lost(p, boot)
	c.mu.Unlock()
	if err != nil && !p.late {
		p.answer(err)
		return
	}
	err = fault.Err
	if p.work != nil && (err == nil || fault.Works) {
		if c.Observe != nil {
			c.Observe(call)
		}
		c.mu.Lock()
		failed := p.work(p)
		c.mu.Unlock()
		if failed == nil && c.Changed != nil {
			c.Changed(p.change(true))
		}
		err = cmp.Or(failed, err)
	}
	finish := func(err error) {
		if fault.panicked(err) {
			fault.panic(p.ctx, call, p.answer)
			return
		}
		if fault.AnswerLate > 0 {
			c.clock.AfterFunc(fault.AnswerLate, func() { p.answer(err) })
			return
		}
		p.answer(err)
	}
	if err != nil || p.after == nil {
		c.clean(p, boot, err)
		finish(err)
		return
	}
	c.clock.AfterFunc(hostLatency, func() {
		c.mu.Lock()
		err := c.lost(p, boot)
		if err == nil {
			err = p.after(p)
		}
		c.mu.Unlock()
		finish(err)
	})
}

// clean removes the notes of a call that was refused, if it was the first.
func (c *CSI) clean(p *csiCall, boot int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.fresh && port.CSIOutcome(err) == csi.Refused && c.lost(p, boot) == nil {
		delete(c.places, csiPath(&p.place))
	}
}

// at is the directory of a call, made with notes if it is not there.
func (c *CSI) at(p *csiCall) *CSIPlace {
	name := csiPath(&p.place)
	if c.places[name] == nil {
		c.places[name] = &CSIPlace{Found: p.place}
	}
	return c.places[name]
}

// note writes notes.
func (c *CSI) note(p *csiCall) error {
	c.at(p).Notes = true
	return nil
}

// remove removes a directory and its notes.
func (c *CSI) remove(p *csiCall) error {
	delete(c.places, csiPath(&p.place))
	return nil
}

// mounted is what a driver has at a place, nil for nothing.
func (c *CSI) mounted(f csi.Found) *CSIPlace {
	if at := c.places[csiPath(&f)]; at != nil && at.Mounted {
		return at
	}
	return nil
}

// StageVolume implements port.CSI.
func (c *CSI) StageVolume(ctx context.Context, _ port.CSIDriver, r csi.Stage, done func(error)) {
	p := &csiCall{
		ctx: ctx, op: csi.StageVolume, place: csi.Found{Key: r.Key, Block: r.Block}, done: done, stage: &r, fresh: r.Fresh,
	}
	if r.Block {
		p.place.Target.Name = r.Name
	}
	p.before = func(p *csiCall) error {
		if p.driver.PublishOnly {
			p.work = nil
		}
		if p.driver.PublishOnly && !r.Block {
			return nil // there is nothing to find
		}
		if r.NoSecret != "" && !p.driver.PublishOnly {
			return &port.Error{Kind: port.NotCalled, Verb: "NodeStageVolume", Object: r.String(), Detail: r.NoSecret}
		}
		return c.note(p)
	}
	p.work = func(p *csiCall) error {
		if was := c.mounted(p.place); was != nil && !was.Stage.Same(r) {
			return p.refuse(codes.AlreadyExists, "it is staged in another way")
		}
		at := c.at(p)
		at.Mounted, at.Stage = true, &r
		return nil
	}
	c.call(p)
}

// UnstageVolume implements port.CSI.
func (c *CSI) UnstageVolume(ctx context.Context, _ port.CSIDriver, r csi.Found, done func(error)) {
	if !r.Block {
		r.Target = csi.Target{}
	}
	p := &csiCall{ctx: ctx, op: csi.UnstageVolume, place: r, done: done, after: c.remove}
	p.before = func(p *csiCall) error {
		if p.driver.PublishOnly {
			p.work = nil
		}
		return nil
	}
	p.work = func(p *csiCall) error {
		for _, o := range c.places { // order-free: any
			if o.Key == r.Key && o.Target.Pod != "" && o.Mounted {
				return p.refuse(codes.FailedPrecondition, "the volume is published")
			}
		}
		if at := c.mounted(p.place); at != nil {
			at.Mounted, at.Stage = false, nil
		}
		return nil
	}
	c.call(p)
}

// PublishVolume implements port.CSI. No volume has so many files that anybody is told of them.
func (c *CSI) PublishVolume(
	ctx context.Context, _ port.CSIDriver, r csi.Publish, _ port.Walked, done func(string, error),
) {
	place := csi.Found{Key: r.Key, Target: r.Target, Inline: r.Inline, Block: r.Block}
	p := &csiCall{
		ctx: ctx, op: csi.PublishVolume, place: place, before: c.note, publish: &r, fresh: r.Fresh,
		done: func(err error) {
			path := csiPath(&place)
			if err != nil {
				path = ""
			}
			done(path, err)
		},
	}
	p.work = func(p *csiCall) error {
		staging := csi.Found{Key: r.Key, Block: r.Block}
		if r.Block {
			staging.Target.Name = r.Name
		}
		was := c.mounted(p.place)
		switch {
		case was != nil && (was.Key != r.Key || was.Publish.ReadOnly != r.ReadOnly):
			return p.refuse(codes.AlreadyExists, "something else is published there")
		case !r.Inline && !p.driver.PublishOnly && c.mounted(staging) == nil:
			return p.refuse(codes.FailedPrecondition, "the volume is not staged")
		}
		at := c.at(p)
		at.Mounted, at.Publish = true, &r
		return nil
	}
	c.call(p)
}

// UnpublishVolume implements port.CSI.
func (c *CSI) UnpublishVolume(ctx context.Context, _ port.CSIDriver, r csi.Found, done func(error)) {
	p := &csiCall{ctx: ctx, op: csi.UnpublishVolume, place: r, done: done, after: c.remove}
	p.work = func(p *csiCall) error {
		if at := c.mounted(p.place); at != nil {
			at.Mounted, at.Publish = false, nil
		}
		return nil
	}
	c.call(p)
}

// ExpandVolume implements port.CSI.
func (c *CSI) ExpandVolume(ctx context.Context, _ port.CSIDriver, r csi.Expand, done func(error)) {
	p := &csiCall{
		ctx: ctx, op: csi.ExpandVolume, done: done,
		place: csi.Found{Key: r.Key, Target: csi.Target{Pod: r.Pod, Name: r.Name}, Block: r.Block},
	}
	p.before = func(p *csiCall) error {
		if p.driver.Fixed {
			return csiFailed(port.Unsupported, p.verb, r.Driver, "the driver does not expand volumes on nodes")
		}
		return nil
	}
	p.work = func(p *csiCall) error {
		if c.mounted(p.place) == nil {
			return p.refuse(codes.FailedPrecondition, "the volume is not published there")
		}
		c.sizes[r.Key] = max(c.sizes[r.Key], r.Size)
		return nil
	}
	c.call(p)
}
