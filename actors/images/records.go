package images

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Records are how images were pulled, and what follows from it (KEP-2535).
type Records struct {
	Files  port.PullRecords
	Policy imagepull.VerificationPolicy
}

// Results of a check, as the kubelet counts them.
const (
	policyAllowed    = "credentialPolicyAllowed"
	recordFound      = "credentialRecordFound"
	mustAuthenticate = "mustAuthenticate"
	checkError       = "error"
)

const (
	recordDeadline = 10 * time.Second
	// loadDeadline bounds the reading of all records: a node may have hundreds, and a slow disk when it boots.
	loadDeadline = time.Minute
	recordRetry  = 5 * time.Second
	// recordLane orders all that is done with files of records.
	recordLane = "pull-records"
)

// reading is whether the records were read.
//
//	unread ──► loaded: what the intents of earlier agents came to is settled, see intent
//	   │          ▲
//	   │          └─────────┐
//	   └─can't be read─► unreadable: each image must be pulled again; it is read again every minute
//
// Until they are loaded, no pod is given an image that is there.
type reading uint8

const (
	unread reading = iota
	unreadable
	loaded
)

func (r reading) String() string { return [...]string{"unread", "unreadable", "loaded"}[r] }

// records is what is known of how images were pulled.
type records struct {
	reading reading
	// loading is the read under way, 0 for none.
	loading kernel.EffectID
	// first is the first read of this incarnation: what earlier ones read is too old.
	first kernel.EffectID
	// intents are those of images by name, pulled the records by image ID.
	intents map[string]*intent
	pulled  map[string]*imagepull.Record
	// intentKeys are the names in intents by their imagepull.ImageKey.
	intentKeys map[string][]string
	// touched is when an image was found to be pulled, by its ID: a list or a removal that was begun before says nothing
	// of it.
	touched map[string]time.Time
	// damaged are the file names of records that can't be read, lost those of intents: nobody knows who may use their
	// images.
	damaged, lost map[string]bool
	// preloaded are the names of images that no agent has pulled, by ID, as the runtime has shown them.
	preloaded map[string][]string
}

func newRecords() records {
	return records{
		intents: map[string]*intent{}, intentKeys: map[string][]string{},
		pulled: map[string]*imagepull.Record{}, touched: map[string]time.Time{},
		damaged: map[string]bool{}, lost: map[string]bool{}, preloaded: map[string][]string{},
	}
}

func recordEffect(kind, object string) kernel.Effect[Message] {
	return kernel.Effect[Message]{Kind: kind, Object: object, Lane: recordLane, Deadline: recordDeadline}
}

func (a *images) loadRecords(ctx *kernel.Context[Message]) {
	r := &a.records
	if a.deps.Records == nil || r.reading == loaded {
		return
	}
	e := recordEffect("LoadPullRecords", "")
	e.Deadline = loadDeadline
	r.loading = portcall.Do(ctx, e, a.deps.Records.Files.Load,
		func(id kernel.EffectID, files port.PullFiles, err error) Message {
			return recordsLoaded{id, files, err}
		})
	if r.first == 0 {
		r.first = r.loading
	}
}

// recordsLoaded applies what the disk has. An answer after its deadline will do, as long as there is no other.
func (a *images) recordsLoaded(ctx *kernel.Context[Message], m recordsLoaded) {
	r := &a.records
	if late := r.loading != m.id; r.reading == loaded || m.id < r.first || late && m.err != nil {
		return
	}
	r.loading = 0
	if m.err != nil {
		if r.reading == unread {
			ctx.Log().Error().Str("error", m.err.Error()).Msg("cannot read the records of image pulls; retrying: " +
				"until then a pod is given an image that is on this node only after it was pulled with the pod's credentials")
		}
		r.reading = unreadable
		ctx.After(time.Minute, reload{})
		a.advanceAll(ctx)
		return
	}
	r.reading = loaded
	for _, name := range m.files.Aside {
		r.damaged[name] = true
	}
	for _, name := range m.files.AsideIntents {
		r.lost[name] = true
	}
	for _, f := range m.files.Records {
		record, err := imagepull.ParseRecord(f.Name, f.Data)
		if f.Err != nil || err != nil {
			r.damaged[f.Name] = true
			a.setAside(ctx, f, err)
			continue
		}
		if r.pulled[record.ImageRef] == nil { // else one was written meanwhile
			r.pulled[record.ImageRef] = record
		}
	}
	for _, f := range m.files.Intents {
		image, err := imagepull.ParseIntent(f.Name, f.Data)
		if f.Err != nil || err != nil {
			r.lost[f.Name] = true
			a.setAside(ctx, f, err)
			continue
		}
		a.leftIntent(ctx, image)
	}
	a.countRecords()
	a.advanceAll(ctx)
}

// setAside keeps a damaged file for people to look at, and tells them.
func (a *images) setAside(ctx *kernel.Context[Message], f port.PullFile, why error) {
	if f.Err != nil {
		why = f.Err
	}
	portcall.Do(ctx, recordEffect("SetAsidePullRecord", f.Name), func(c context.Context, done func(string, error)) {
		a.deps.Records.Files.SetAside(c, f, done)
	}, func(id kernel.EffectID, where string, err error) Message { return recorded{id, f.Name, where, err} })
	what := "its image must be pulled again with the credentials of each pod that uses it"
	if f.Intent {
		what = "if the image that it is for is on this node, it must be pulled with the credentials of each pod that uses it"
	}
	ctx.Log().Error().Str("record", f.Name).Str("error", why.Error()).
		Msg("record of an image pull is damaged and is set aside; continuing without it: " + what)
}

// record notes that an image was pulled with one of these offers. ends: its pull has ended, and the intent with it. The
// intent of a pull that runs stays: an agent that is killed now must know of it.
func (a *images) record(ctx *kernel.Context[Message], id, name string, offers []imagepull.Offer, ends bool) {
	if a.deps.Records == nil {
		return
	}
	record, changed := imagepull.AddPull(a.records.pulled[id], id, name, offers, ctx.Now(), a.records.preloaded[id]...)
	delete(a.records.preloaded, id)
	intent := ""
	if ends && a.records.intents[name] != nil {
		intent = name
		a.records.forgetIntent(name)
	}
	if !changed {
		record = nil
	} else {
		a.records.pulled[id] = record
	}
	a.records.touched[id] = ctx.Now()
	a.countRecords()
	if record != nil || intent != "" {
		a.saveRecord(ctx, record, intent)
	}
}

// saveRecord writes a record, and removes an intent after that. If it can't be written, the intent stays: an agent that
// finds it knows that the image was pulled.
func (a *images) saveRecord(ctx *kernel.Context[Message], record *imagepull.Record, intent string) {
	name, object, data := "", intent, []byte(nil)
	if record != nil {
		name, object, data = imagepull.RecordFileName(record.ImageRef), record.ImageRef, imagepull.EncodeRecord(record)
	}
	file := ""
	if intent != "" {
		file = imagepull.RecordFileName(intent)
	}
	portcall.Do0(ctx, recordEffect("SavePullRecord", object), func(c context.Context, done func(error)) {
		a.deps.Records.Files.SavePulled(c, name, data, file, done)
	}, func(id kernel.EffectID, err error) Message { return recorded{id, object, "", err} })
}

func (a *images) recorded(ctx *kernel.Context[Message], m recorded) {
	switch {
	case m.err != nil:
		ctx.Log().Warn().Str("record", m.name).Str("error", m.err.Error()).
			Msg("cannot write, remove or set aside the record of an image pull")
	case m.where != "":
		ctx.Log().Warn().Str("record", m.name).Str("setAside", m.where).Msg("set aside a damaged record of an image pull")
	}
}

// forgetRecord removes the record of an image that is gone.
func (a *images) forgetRecord(ctx *kernel.Context[Message], name string) {
	portcall.Do0(ctx, recordEffect("RemovePullRecord", name), func(c context.Context, done func(error)) {
		a.deps.Records.Files.RemovePulled(c, name, done)
	}, func(id kernel.EffectID, err error) Message { return recorded{id, name, "", err} })
}

// imageRemoved forgets how an image was pulled, unless it was pulled again since its removal was begun.
func (a *images) imageRemoved(ctx *kernel.Context[Message], id string) {
	delete(a.records.preloaded, id)
	name := imagepull.RecordFileName(id)
	if _, again := a.records.touched[id]; again || a.records.pulled[id] == nil && !a.records.damaged[name] {
		return
	}
	delete(a.records.pulled, id)
	delete(a.records.damaged, name)
	a.countRecords()
	a.forgetRecord(ctx, name)
}

// prune forgets how images were pulled that are not in a list that was begun then.
func (a *images) prune(ctx *kernel.Context[Message], list []observed.Image, begun time.Time) {
	if a.deps.Records == nil || a.records.reading != loaded {
		return
	}
	there, files := map[string]bool{}, map[string]bool{}
	for i := range list {
		for _, id := range append([]string{list[i].ID}, list[i].RepoDigests...) {
			there[id], files[imagepull.RecordFileName(id)] = true, true
		}
	}
	r := &a.records
	for _, id := range slices.Sorted(maps.Keys(r.pulled)) {
		if !there[id] && r.pulled[id].LastUpdatedTime.Time.Before(begun) && r.touched[id].Before(begun) {
			delete(r.touched, id)
			a.imageRemoved(ctx, id)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.damaged)) {
		if !files[name] {
			delete(r.damaged, name)
			a.forgetRecord(ctx, name)
		}
	}
	a.pruneIntents(ctx, list)
	maps.DeleteFunc(r.preloaded, func(id string, _ []string) bool { return !there[id] })
	for i := range list {
		r.see(&list[i])
	}
}

func (a *images) countRecords() {
	if c := a.deps.Counts; c != nil {
		c.Recorded(len(a.records.intents), len(a.records.pulled))
	}
}

// of is the record of an image: by its ID, or by a digest, which some runtimes answer a pull with; nil for none.
func (r *records) of(image *observed.Image) *imagepull.Record {
	if record := r.pulled[image.ID]; record != nil {
		return record
	}
	for _, digest := range image.RepoDigests {
		if record := r.pulled[digest]; record != nil {
			return record
		}
	}
	return nil
}

// see notes the names of an image that no agent has pulled: when it is pulled under another one, it stays everybody's
// under these (kubernetes #138175). While a pull may be under way, nobody knows which names come by it: a runtime may
// complete a short name in its own way.
func (r *records) see(image *observed.Image) {
	if r.reading == loaded && len(r.intents)+len(r.lost)+len(r.damaged) == 0 && r.of(image) == nil {
		r.preloaded[image.ID] = slices.Concat(image.RepoTags, image.RepoDigests)
	}
}

// verify finds out which containers may use an image that is there. It is asked again while they wait: another pod may
// pull the image with the same secret.
func (a *images) verify(ctx *kernel.Context[Message], i *image, those []*imagepull.Waiter) []imagepull.Verdict {
	verdicts := make([]imagepull.Verdict, len(those))
	if i.Sight != imagepull.Present || !i.Fresh(a.env(ctx)) {
		return verdicts
	}
	for n, w := range those {
		if imagepull.Decide(w.Ask.Policy, i.Name, true) == imagepull.UsePresent {
			verdicts[n] = a.verifyOne(ctx, i, w)
		}
	}
	return verdicts
}

func (a *images) verifyOne(ctx *kernel.Context[Message], i *image, w *imagepull.Waiter) imagepull.Verdict {
	switch {
	case a.deps.Records == nil || w.State == imagepull.Brought:
		return imagepull.Allowed
	case a.records.reading == unreadable:
		return a.judge(w, imagepull.Refused, checkError)
	case a.records.reading == unread || a.records.unsettled(i):
		return imagepull.Unverified
	}
	id := i.Info.ID
	a.records.see(i.Info)
	record := a.records.of(i.Info)
	preloaded := named(i.Info, i.Name) && imagepull.Preloaded(record, i.Name)
	known := record != nil && !preloaded || a.records.mayBePulled(i) || a.records.damaged[imagepull.RecordFileName(id)]
	if !a.deps.Records.Policy.Verifies(i.Name, known) {
		return a.judge(w, imagepull.Allowed, policyAllowed)
	}
	with, _ := imagepull.CredentialsFor(record, i.Name)
	if !with.NodePodsAccessible && len(with.KubernetesSecrets)+len(with.KubernetesServiceAccounts) > 0 {
		if !w.SecretsKnown() {
			return imagepull.Unverified
		}
		if !a.allows(w, record, i.Name) && len(with.KubernetesServiceAccounts) > 0 && !a.offered(ctx, i, w) {
			return imagepull.Unverified // a plugin says as whom
		}
	}
	if !a.allows(w, record, i.Name) {
		return a.judge(w, imagepull.Refused, mustAuthenticate)
	}
	if _, learned := imagepull.RecordAllows(record, i.Name, slices.Collect(w.Offers())); learned != nil {
		a.record(ctx, record.ImageRef, i.Name, []imagepull.Offer{*learned}, false)
	}
	return a.judge(w, imagepull.Allowed, recordFound)
}

// allows reports whether a record lets a container have an image. What a record says of the same offers it says again.
func (a *images) allows(w *imagepull.Waiter, record *imagepull.Record, image string) bool {
	if record != nil && w.RefusedBy == record {
		return false
	}
	ok, _ := imagepull.RecordAllows(record, image, slices.Collect(w.Offers()))
	if w.RefusedBy = nil; !ok {
		w.RefusedBy = record
	}
	return ok
}

// judge counts a verdict when it is a new one.
func (a *images) judge(w *imagepull.Waiter, v imagepull.Verdict, result string) imagepull.Verdict {
	if c := a.deps.Counts; c != nil && w.Verdict != v {
		c.Verified(result)
	}
	w.Verdict = v
	return v
}
