package images

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagegc"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

func (a *images) measureAhead(ctx *kernel.Context[Message]) kernel.EffectID {
	return portcall.Do(ctx, a.collecting("Left", "ahead"), a.deps.Collect.Left,
		func(id kernel.EffectID, r eviction.Reading, err error) Message { return aheadMeasured{id, r, err} })
}

func (a *images) aheadMeasured(ctx *kernel.Context[Message], m aheadMeasured) {
	h := &a.ahead
	now, low := ctx.Now(), 0
	if a.deps.Collect != nil {
		low = a.deps.Collect.Policy.Low
	}
	switch {
	case h.stage == measuringRoom && h.pending == m.id:
		room, ok, news := h.list.Room(h.name, m.left.ImageFS.Bytes, low, now)
		if news {
			ctx.Log().Warn().Str("image", h.name).Int("imageGCLowThresholdPercent", low).
				Int("usedPercent", imagegc.Percent(m.left.ImageFS.Bytes)).
				Msg("images are not pulled ahead: the disk of images is not below its low threshold, or can't be measured; " +
					"it is measured again every 5 minutes")
		}
		if !ok {
			h.dirty = h.dirty || room > 0 // then it is held back
			a.rest(ctx)
			return
		}
		h.room = room
		a.askAhead(ctx)
	case h.stage == pullingAhead && h.watching == m.id:
		h.watching = 0
		i := a.of[h.name]
		full := m.left.ImageFS.Bytes.Known && imagegc.Below(m.left.ImageFS.Bytes, low) == 0
		if full && h.end == goesOn && len(i.waiting) == 0 {
			a.giveUp(ctx, i, outgrew)
			return
		}
		h.watch = ctx.After(aheadWatch, aheadLook{})
	}
}

// aheadWatches measures the disk during a pull.
func (a *images) aheadWatches(ctx *kernel.Context[Message]) {
	h := &a.ahead
	if h.stage == pullingAhead && h.watching == 0 && a.deps.Collect != nil && a.deps.Collect.Left != nil {
		h.watching = a.measureAhead(ctx)
	}
}

// askAhead asks what the image can be pulled with: what each pod of the node has.
func (a *images) askAhead(ctx *kernel.Context[Message]) {
	h := &a.ahead
	h.stage, h.pending = askingNode, 0
	if a.deps.Lookup == nil {
		a.pullAhead(ctx, nil)
		return
	}
	h.pending = a.lookUp(ctx, h.name, nil, func(id kernel.EffectID, f credentials.Found, err error) Message {
		return aheadFound{id, f, err}
	})
}

func (a *images) aheadFound(ctx *kernel.Context[Message], m aheadFound) {
	h := &a.ahead
	if h.stage != askingNode || h.pending != m.id {
		return
	}
	h.failures = m.found.Failures
	if m.err != nil {
		h.failures = []string{lookupFailed(m.err)}
	}
	var with []imagepull.Credential
	seen := map[imagepull.Credential]bool{}
	for _, o := range m.found.Offers {
		if o.Source.Owner == imagepull.Node && !seen[o.Credential] {
			seen[o.Credential] = true
			with = append(with, o.Credential)
		}
	}
	a.pullAhead(ctx, with)
}

// pullAhead begins the pull, if nothing came in between.
func (a *images) pullAhead(ctx *kernel.Context[Message], with []imagepull.Credential) {
	h := &a.ahead
	h.pending = 0
	if a.busy() || !a.bucket.Full(ctx.Now()) {
		a.rest(ctx)
		return
	}
	a.bucket.Turn(ctx.Now())
	if len(with) == 0 {
		with = nothing
	}
	i := a.get(h.name)
	i.ahead, i.next, i.tried, i.told, i.inherited = true, with, nil, nil, false
	i.begun, h.stage = ctx.Now(), pullingAhead
	h.watch = ctx.After(aheadWatch, aheadLook{})
	if a.deps.Records != nil {
		a.intend(ctx, i)
		return
	}
	a.pullNext(ctx, i, nil)
}

// giveWay ends a pull ahead for a pod that needs a pull of i, unless that is its image, and is being pulled already.
func (a *images) giveWay(ctx *kernel.Context[Message], i *image) {
	h := &a.ahead
	switch h.stage {
	case resting:
	case pullingAhead:
		of := a.of[h.name]
		if h.end != goesOn || of == i && a.underway(ctx, i) || of != i && len(of.waiting) > 0 {
			return
		}
		a.giveUp(ctx, of, gaveWay)
	default:
		ctx.Cancel(h.pending)
		a.rest(ctx)
	}
}

// underway says whether the runtime was asked for the pull ahead of an image.
func (a *images) underway(ctx *kernel.Context[Message], i *image) bool {
	return slices.ContainsFunc(ctx.InFlight(), func(e kernel.EffectInfo) bool {
		return e.ID == i.pulling && e.Kind == pullAheadKind && e.Phase == kernel.EffectStarted
	})
}

// giveUp ends a pull ahead. The runtime answers a pull that it was asked for; one that waits for pods to start is over.
func (a *images) giveUp(ctx *kernel.Context[Message], i *image, why aheadEnd) {
	a.ahead.end = why
	if _, dropped := a.cancelPull(ctx, i); dropped {
		a.givenUp(ctx, i)
	}
}

// errGivenUp is how a pull ended that was given up: the runtime may have done it all the same.
var errGivenUp = &port.Error{Kind: port.Canceled}

// givenUp is the end of a pull ahead that was given up.
func (a *images) givenUp(ctx *kernel.Context[Message], i *image) {
	h := &a.ahead
	if h.end == outgrew {
		h.list.Outgrew(i.name, h.room, ctx.Now())
		h.dirty = true
		ctx.Log().Warn().Str("image", i.name).Msg("gave up pulling an image ahead: with it, the disk of images would be " +
			"over imageGCLowThresholdPercent; it is tried again when there is more room, after 6 hours at the earliest")
	}
	i.ahead, i.next = false, nil
	a.notPulled(ctx, i.name, errGivenUp)
	a.rest(ctx)
	a.drop(ctx, i)
}

// aheadIntended says whether the intent was written for a pull ahead that is not made after all. why is what err is of.
func (a *images) aheadIntended(ctx *kernel.Context[Message], i *image, err error, why string) bool {
	h := &a.ahead
	switch {
	case !i.ahead || err == nil && h.end == goesOn:
		return false
	case h.end != goesOn:
		a.givenUp(ctx, i)
	default:
		i.ahead, i.next = false, nil
		a.notPulled(ctx, i.name, nil)
		a.aheadFailed(ctx, err, why+": "+detail(err))
	}
	a.advance(ctx, i)
	a.drop(ctx, i)
	return true
}

// aheadPulled notes the end of a pull ahead. It says whether no pod is concerned.
func (a *images) aheadPulled(ctx *kernel.Context[Message], i *image, m *pulled) bool {
	h := &a.ahead
	switch {
	case !i.ahead:
		return false
	case m.err == nil:
		i.ahead = false
		h.list.Pulled(i.name, m.ref, ctx.Now())
		h.dirty = true
		ctx.Log().Info().Str("image", i.name).Stringer("took", ctx.Now().Sub(i.begun).Round(time.Millisecond)).
			Msg("pulled image ahead of pods")
		a.rest(ctx)
		return false
	case h.end != goesOn:
		a.givenUp(ctx, i)
	case len(i.waiting) > 0: // it is theirs now
		i.ahead = false
		a.aheadFailed(ctx, m.err, detail(m.err))
		return false
	case len(i.next) > 0 && !mayGoOn(m.err):
		a.pullNext(ctx, i, nil)
		return true
	default:
		i.ahead, i.next = false, nil
		a.notPulled(ctx, i.name, m.err)
		a.aheadFailed(ctx, m.err, strings.Join(append([]string{detail(m.err)}, h.failures...), "; "))
	}
	a.advance(ctx, i)
	a.drop(ctx, i)
	return true
}

// aheadFailed tells people of a failure, once for each reason. While the runtime is down, no image is to blame, and
// all wait.
func (a *images) aheadFailed(ctx *kernel.Context[Message], err error, why string) {
	h := &a.ahead
	if port.KindOf(err) == port.Unavailable {
		h.wished = ctx.Now()
		a.rest(ctx)
		return
	}
	if h.list.Failed(h.name, why, ctx.Now()) {
		ctx.Log().Warn().Str("image", h.name).Str("error", why).Msg("cannot pull an image ahead of pods; retrying with " +
			"backoff: check its name in --pull-ahead-images or --pull-ahead-lists, its registry and the credentials of " +
			"this node")
	}
	a.rest(ctx)
}

// aheadChanged notes which images there are, after a list or a removal.
func (a *images) aheadChanged(ctx *kernel.Context[Message], changed bool) {
	a.ahead.dirty = a.ahead.dirty || changed
	a.planAhead(ctx)
}

func lookupFailed(err error) string {
	return fmt.Sprintf("credentials could not be looked up: %v", err)
}
