package images

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// intent is an image that is being pulled, or may have been; its stages are at imagepull.Intent. While it is Settling
// or Unclear, no pod is given the image: a runtime that does not answer for one image does not hold up the others.
type intent struct {
	imagepull.Intent
	// look asks the runtime what it has, 0 for none. Answers of others are late.
	look kernel.EffectID
	// statusErr is why the runtime did not say what it has before the pull.
	statusErr error
}

// leftIntent takes in the intent of an image that an earlier agent, or incarnation, has left.
func (a *images) leftIntent(ctx *kernel.Context[Message], name string) {
	if in := a.records.intents[name]; in != nil { // it is pulled again already
		in.Forgotten(ctx.Now())
		return
	}
	a.records.addIntent(name, &intent{Intent: *imagepull.LeftIntent(ctx.Now())})
	if a.idle(name) { // else a predecessor is pulling it
		a.settle(ctx, name)
	}
}

// intend writes that an image is being pulled, before it is, and finds out what the runtime has of it.
func (a *images) intend(ctx *kernel.Context[Message], i *image) {
	name := i.Name
	in := a.records.intents[name]
	if in == nil {
		in = &intent{}
		a.records.addIntent(name, in)
		a.countRecords()
	}
	in.look, in.statusErr = 0, nil // they are for the pull before
	if file := imagepull.RecordFileName(name); a.records.lost[file] {
		in.Forgotten(ctx.Now())
	}
	switch ask := in.Begin(); {
	case ask && i.Fresh(a.env(ctx)):
		in.Had(i.ID())
	case ask:
		in.look = a.lookFor(ctx, name)
	}
	i.call = portcall.Do0(ctx, recordEffect("SavePullIntent", name), func(c context.Context, done func(error)) {
		a.deps.Records.Files.SaveIntent(c, imagepull.RecordFileName(name), imagepull.EncodeIntent(name), done)
	}, func(id kernel.EffectID, err error) Message { return intended{id, name, err} })
}

// lookFor asks the runtime what it has under a name.
func (a *images) lookFor(ctx *kernel.Context[Message], name string) kernel.EffectID {
	e := kernel.Effect[Message]{Kind: "ImageStatus", Object: name, Lane: "settle/" + name, Deadline: a.deps.CheckDeadline}
	return portcall.Do(ctx, e, func(c context.Context, done func(settled, error)) {
		a.deps.Runtime.ImageStatus(c, name, func(info observed.Image, ok bool, err error) {
			done(settled{info: &info, ok: ok}, err)
		})
	}, func(id kernel.EffectID, m settled, err error) Message {
		m.id, m.image, m.err = id, name, err
		return m
	})
}

func (a *images) intended(ctx *kernel.Context[Message], m intended) {
	i := a.of[m.image]
	if i == nil || !i.Stage.Under() || i.call != m.id {
		return
	}
	if in := a.records.intents[m.image]; m.err == nil && in.look != 0 {
		if i.call = in.look; i.Stage == imagepull.Noting {
			i.Become(imagepull.Asking) // the runtime says first what it has
		}
		return
	}
	a.noted(ctx, i, m.err)
}

// noted begins a pull whose intent was written, or could not be. If the runtime did not say what it has before, the
// image is not pulled: if it failed, nobody would know whether what is there had come by it.
func (a *images) noted(ctx *kernel.Context[Message], i *image, err error) {
	why := fmt.Sprintf("failed to record image pull intent for container image %q", i.Name)
	statusErr := a.records.intents[i.Name].statusErr
	if err == nil && statusErr != nil {
		err, why = statusErr, "not begun: the container runtime does not say whether it has the image"
	}
	givenUp := i.GivenUp()
	if a.lowest != nil && a.lowest.Ask.Image == i.Name && (err != nil || givenUp) {
		end := imagecache.End{Outcome: of(a.lowest).gaveWay}
		if !givenUp {
			end = failedEnd(err, why+": "+port.Detail(err))
		}
		a.endLowest(ctx, i, end)
	}
	switch {
	case err != nil:
		i.Exhaust(port.Detail(err))
		a.notPulled(ctx, i.Name, nil)
		why += ": " + port.Detail(err)
		told := func(*imagepull.Waiter) string { return why }
		a.failed(ctx, i, i.Concerned(a.env(ctx)), !port.Answered(statusErr), told)
	case givenUp || len(i.Waiting) == 0:
		i.End()
		a.notPulled(ctx, i.Name, nil)
		a.advance(ctx, i)
		a.drop(ctx, i)
	default:
		a.try(ctx, i, podOf(i.Waiting[0]))
	}
}

// asksFor notes that the runtime is asked to pull an image.
func (a *images) asksFor(name string) {
	if in := a.records.intents[name]; in != nil {
		in.Ask()
	}
}

// mayStillComplete says that a pull that failed so may still bring its image. It ends with its runtime: what a runtime
// has that answers again is all that came.
func mayStillComplete(err error) bool {
	return !port.Answered(err) && port.KindOf(err) != port.Unavailable
}

// notPulled goes on with the intent of an image whose pull has failed, or was given up. err is the answer of the
// runtime, nil if it was not asked.
func (a *images) notPulled(ctx *kernel.Context[Message], name string, err error) {
	in := a.records.intents[name]
	switch {
	case in == nil:
	case in.Fail(mayStillComplete(err), ctx.Now()):
		a.endIntent(ctx, name)
	default:
		a.settle(ctx, name)
	}
}

// settle finds out what has come of the pulls of an intent.
func (a *images) settle(ctx *kernel.Context[Message], name string) {
	if in := a.records.intents[name]; in != nil {
		in.Stage = imagepull.IntentSettling
		in.look = a.lookFor(ctx, name)
	}
}

// settleAgain asks the runtime again, unless the image is pulled again.
func (a *images) settleAgain(ctx *kernel.Context[Message], name string) {
	if in := a.records.intents[name]; in != nil && in.Stage == imagepull.IntentUnclear {
		a.settle(ctx, name)
	}
}

func (a *images) settled(ctx *kernel.Context[Message], m settled) {
	in := a.records.intents[m.image]
	if in == nil || in.look != m.id {
		return
	}
	in.look = 0
	id := ""
	if m.err == nil && m.ok {
		id = m.info.ID
	}
	i := a.of[m.image]
	switch {
	case in.Stage == imagepull.IntentNoting:
		if in.statusErr = m.err; m.err == nil {
			in.Had(id)
		}
		if i != nil && i.Stage.Under() && i.call == m.id {
			a.noted(ctx, i, nil)
		}
		return
	case m.err != nil && port.KindOf(m.err) != port.InvalidImageName: // no image has such a name
		in.Stage = imagepull.IntentUnclear
		ctx.After(recordRetry, settleAgain{m.image})
		return
	case m.err == nil && i != nil:
		i.Learn(m.info, m.ok, ctx.Now())
	}
	a.resolve(ctx, m.image, id)
	if len(a.records.intents) == 0 {
		a.advanceAll(ctx) // nobody knew of any image whether it was there before
		return
	}
	a.advanceNamed(ctx, m.image)
}

// advanceNamed does what is needed now for those who wait for an image, under any of its names.
func (a *images) advanceNamed(ctx *kernel.Context[Message], name string) {
	var all []string
	for other, i := range a.of { // order-free: sorted below
		if other == name || i.Sight == imagepull.Present && len(i.Waiting) > 0 && named(i.Info, name) {
			all = append(all, other)
		}
	}
	slices.Sort(all)
	for _, other := range all {
		if i := a.of[other]; i != nil {
			a.advance(ctx, i)
			a.drop(ctx, i)
		}
	}
}

// resolve ends an intent by the ID of what the runtime has under its name, empty for nothing, unless it has to stay.
func (a *images) resolve(ctx *kernel.Context[Message], name, id string) {
	switch a.records.intents[name].Settle(id, ctx.Now()) {
	case imagepull.IntentRecords:
		a.record(ctx, id, name, nil, true)
	case imagepull.IntentGoes:
		a.endIntent(ctx, name)
	case imagepull.IntentStays:
	}
}

// endIntent ends an intent without a record.
func (a *images) endIntent(ctx *kernel.Context[Message], name string) {
	a.records.forgetIntent(name)
	a.countRecords()
	a.saveRecord(ctx, nil, name)
}

func (r *records) addIntent(name string, in *intent) {
	r.intents[name] = in
	key := imagepull.ImageKey(name)
	r.intentKeys[key] = append(r.intentKeys[key], name)
}

func (r *records) forgetIntent(name string) {
	if r.intents[name] != nil {
		key := imagepull.ImageKey(name)
		rest := slices.DeleteFunc(r.intentKeys[key], func(n string) bool { return n == name })
		if r.intentKeys[key] = rest; len(rest) == 0 {
			delete(r.intentKeys, key)
		}
	}
	delete(r.intents, name)
	delete(r.lost, imagepull.RecordFileName(name))
}

// pruneIntents ends intents that wait for the late end of a pull, by a list of all images.
func (a *images) pruneIntents(ctx *kernel.Context[Message], list []observed.Image) {
	var ids map[string]string // by key, of the first in the list
	for _, name := range slices.Sorted(maps.Keys(a.records.intents)) {
		if a.records.intents[name].Stage != imagepull.IntentLate {
			continue
		}
		if ids == nil {
			ids = map[string]string{}
			for i := range slices.Backward(list) {
				for other := range names(&list[i]) {
					ids[imagepull.ImageKey(other)] = list[i].ID
				}
			}
			delete(ids, "")
		}
		a.resolve(ctx, name, ids[imagepull.ImageKey(name)])
	}
}

// names are those of an image that is there.
func names(of *observed.Image) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, list := range [...][]string{of.RepoTags, of.RepoDigests} {
			for _, name := range list {
				if !yield(name) {
					return
				}
			}
		}
	}
}

// named says whether an image that is there has the name.
func named(of *observed.Image, name string) bool {
	for other := range names(of) {
		if imagepull.SameImage(name, other) {
			return true
		}
	}
	return false
}

// intentsOf are those of an image that is there, under any of its names. There may be thousands of others: of pulls
// that were given up, for an hour.
func (r *records) intentsOf(i *image) iter.Seq[*intent] {
	return func(yield func(*intent) bool) {
		if len(r.intents) == 0 {
			return
		}
		if in := r.intents[i.Name]; in != nil && !yield(in) {
			return
		}
		for other := range names(i.Info) {
			key := imagepull.ImageKey(other)
			if key == "" {
				continue
			}
			for _, name := range r.intentKeys[key] {
				if !yield(r.intents[name]) {
					return
				}
			}
		}
	}
}

// unsettled reports whether it is not known yet if an image that is there was pulled, under any of its names.
func (r *records) unsettled(i *image) bool {
	for in := range r.intentsOf(i) {
		if in.Stage == imagepull.IntentSettling || in.Stage == imagepull.IntentUnclear {
			return true
		}
	}
	return false
}

// mayBePulled reports whether an image that is there may have come by a pull of which there is no record, under any of
// its names.
func (r *records) mayBePulled(i *image) bool {
	for in := range r.intentsOf(i) {
		if in.Brought(i.Info.ID) {
			return true
		}
	}
	if len(r.lost) == 0 {
		return false
	}
	lost := func(name string) bool { return r.lost[imagepull.RecordFileName(name)] }
	return lost(i.Name) || slices.ContainsFunc(i.Info.RepoTags, lost) || slices.ContainsFunc(i.Info.RepoDigests, lost)
}

// idle reports whether no pull of an image runs.
func (a *images) idle(name string) bool {
	i := a.of[name]
	return i == nil || !i.Stage.Under()
}
