package apiobjects

import (
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// stream is a watch of many objects, which pods share.
type stream struct {
	of        podobjects.Kind
	selection port.Selection
	// watch is 0 while no pod needs it. seen: the full list has arrived.
	watch       kernel.EffectID
	heard, seen bool
	// broken is why the watch failed last.
	broken error
}

// stream is the watch of a kind; nil for a kind whose objects are known one by one.
func (a *apiobjects) stream(of podobjects.Kind) *stream {
	switch of {
	case podobjects.Services:
		return &a.services.stream
	case podobjects.TrustBundle:
		return &a.bundles.stream
	case podobjects.Certificate:
		return &a.certificates.stream
	default:
		return nil
	}
}

// follow starts a watch, in place of the one before.
func (a *apiobjects) follow(ctx *kernel.Context[Message], s *stream) {
	if s.watch != 0 {
		ctx.Cancel(s.watch)
	}
	of := s.of
	r := podobjects.Ref{Kind: of}
	a.watches++
	s.heard = false
	e := kernel.Effect[Message]{Kind: watchKind + s.selection.Kind.String() + "s"}
	s.watch = portcall.Watch(ctx, e, a.watches, a.deps.API, s.selection,
		func(id kernel.EffectID, change port.APIChange) Message { return streamTold{id, of, change} },
		func(id kernel.EffectID, _ error) Message { return ended{id, r} })
	ctx.After(a.deps.Patience, unheard{s.watch, r})
}

// unfollow ends a watch that no pod needs any more.
func (s *stream) unfollow(ctx *kernel.Context[Message]) {
	if s.watch != 0 {
		ctx.Cancel(s.watch)
	}
	s.watch, s.seen, s.broken = 0, false, nil
}

func (a *apiobjects) streamTold(ctx *kernel.Context[Message], m streamTold) {
	s := a.stream(m.of)
	if m.id != s.watch {
		return
	}
	s.heard = true
	switch c := m.change.(type) {
	case port.APIReplaced:
		s.seen = true
	case port.APIBroken:
		s.broken = c.Err
	case port.APISet, port.APIDeleted:
	}
	switch m.of {
	case podobjects.Services:
		a.services.told(ctx, a, m.change)
	case podobjects.TrustBundle:
		a.bundles.told(ctx, a, m.change)
	case podobjects.Certificate:
		a.certificates.told(ctx, a, m.change)
	default:
		panic("no stream is of " + m.of.String())
	}
}
