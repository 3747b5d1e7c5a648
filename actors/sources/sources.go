// Package sources is the actor that reads the desired static pods from a directory of
// manifests and from a URL.
//
//	sources ──Read, Watch, Fetch──► manifests      sources ──Update──► podset
//
// A change event of the directory is a hint to read it. It is also read once per
// period. If a manifest was removed and is there again, its pod ends and begins again, also if no reading missed it.
// If a manifest becomes invalid, the pods of its last valid version keep
// running. The checkpoint preserves this over an agent restart. If the whole directory can't be
// read, the same; if it is not there for goneAfter, its pods end, but not before all other sources have reported.
package sources

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Message is what the sources actor understands.
//
//sumtype:decl
type Message interface{ isSourcesMessage() }

// Resend asks for all updates again. From podset, which restarted.
type Resend struct{}

// changed is a hint from the watch of the directory.
type changed struct{}

// remade names manifests that were removed and are there again. From the watch of the directory, before the hint. Lost:
// the removal was not noticed.
type remade struct{ sources []string }

// tick is this actor's own timer for one source.
type tick struct{ source podspec.Origin }

// journaled is the result of reading or writing the checkpoint.
type journaled struct{ checkpoint.Event }

// read is the result of reading the directory.
type read struct {
	id    kernel.EffectID
	files []port.ManifestFile
	err   error
}

// fetched is the result of fetching the URL.
type fetched struct {
	id   kernel.EffectID
	data []byte
	same bool
	err  error
}

// watchEnded says that the watch of the directory ended.
type watchEnded struct{ err error }

func (Resend) isSourcesMessage()     {}
func (changed) isSourcesMessage()    {}
func (remade) isSourcesMessage()     {}
func (tick) isSourcesMessage()       {}
func (journaled) isSourcesMessage()  {}
func (read) isSourcesMessage()       {}
func (fetched) isSourcesMessage()    {}
func (watchEnded) isSourcesMessage() {}

// MailboxKey implements kernel.Keyed: many hints are one.
func (changed) MailboxKey() string { return "changed" }

// Update is all that a source wants to run. To podset, whenever it changed.
type Update struct {
	Source podspec.Origin
	// Seen is false until the source answered once; what was remembered of it
	// runs meanwhile, and nothing is cleaned up.
	Seen bool
	// Unread: its directory is not there, or can't be read. What runs ends only when all other sources have answered too.
	Unread bool
	// Unsure: a manifest has no valid version, so it may want more than it names. What it never named ends only then.
	Unsure bool
	// Dropped are the pods of an earlier agent whose manifests were gone, or others, when this one began. They end also
	// while Unsure, as they would have ended with that agent.
	Dropped  []types.UID
	Pods     []*v1.Pod
	Problems []manifest.Problem
}

// Deps are what the actor is connected to.
type Deps struct {
	Manifests   port.Manifests
	Checkpoints port.Checkpoints
	Update      func(Update)
	// Remade gets pods whose manifests were removed and are there again, before the Update with what they say now.
	Remade   func([]types.UID)
	NodeName string
	Settings
	// Deadline of one read or fetch.
	Deadline time.Duration
}

// Settings are the configured part of Deps.
type Settings struct {
	// Path is the manifest directory or file, URL the manifest URL; empty for none. (staticPodPath, staticPodURL)
	Path, URL string
	// PathPeriod is the time between readings, URLPeriod that between fetches. (fileCheckFrequency, httpCheckFrequency)
	PathPeriod, URLPeriod time.Duration
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &sources{deps: deps, cache: map[string]cached{}} }
}

// goneAfter is how long a manifest directory must be missing until its pods end.
const goneAfter = 5 * time.Second

type sources struct {
	deps *Deps
	// state is by source; seen once each was read.
	file, http manifest.State
	fileSeen   bool
	httpSeen   bool
	// cache keeps what a file decoded to as long as its bytes stay.
	cache map[string]cached
	// remade are manifests that were removed and made again since the last reading.
	remade []string
	// reading and fetching are the effects under way, 0 for none. What
	// others bring is late: older than what is known, or of a predecessor, who
	// knew more. Nothing is read before the checkpoint is loaded: what is broken
	// now may have been good then.
	reading  kernel.Call
	fetching kernel.Call
	again    bool
	// missing is since when the directory is not there; zero if it is, or can't be read. unread is why it could not be
	// read last.
	missing time.Time
	unread  []manifest.Problem
	// dropped is Update.Dropped.
	dropped []types.UID
	// fetchAll: an answer to the last fetch was lost, so that "the same" says nothing.
	fetchAll bool
	// written is the JSON of what the checkpoint has, or is to have.
	checkpoint checkpoint.Journal[Message, remembered]
	written    []byte
	noted      map[problem]bool // problems that were logged
}

// Check implements kernel.Checked.
func (s *sources) Check() error { return s.checkpoint.Check() }

type cached struct {
	data    []byte
	decoded manifest.Decoded
}

// remembered is what is kept over the end of the process.
type remembered struct {
	File manifest.State `json:"file"`
	HTTP manifest.State `json:"http"`
}

// saveFile is the checkpoint.
var saveFile = checkpoint.File[remembered]{
	Name: "static-pods", Valid: (*remembered).valid,
	Without:       "continuing without it: static pods run whose manifests can be read now",
	Unwritten:     "cannot write the static pods checkpoint",
	RetryWithNext: true, // with the next reading
}

// valid rejects states that Merge can't have made.
func (r *remembered) valid() error { return errors.Join(r.File.Validate(), r.HTTP.Validate()) }

// Start implements kernel.Behavior.
func (s *sources) Start(ctx *kernel.Context[Message]) {
	s.noted = map[problem]bool{}
	for _, e := range ctx.InFlight() {
		if e.Kind == "WatchManifests" {
			ctx.Cancel(e.ID)
		}
	}
	s.checkpoint.Load(ctx, s.deps.Checkpoints, &saveFile, func(e checkpoint.Event) Message { return journaled{e} })
}

// Overflowed implements kernel.OverflowHandler: only what the watch says and Resend can be missed.
func (s *sources) Overflowed(ctx *kernel.Context[Message]) {
	s.Receive(ctx, Resend{})
	if s.deps.Path != "" {
		s.readDirectory(ctx)
	}
}

// Receive implements kernel.Behavior.
func (s *sources) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case journaled:
		switch news, restored := s.checkpoint.Hear(ctx, m.Event); news {
		case checkpoint.Loaded:
			s.begin(ctx, restored)
		case checkpoint.Saved:
			s.write(ctx)
		default:
		}
	case Resend:
		if !s.checkpoint.Known() {
			return // it comes
		}
		s.report(ctx, podspec.File, s.file)
		s.report(ctx, podspec.HTTP, s.http)
	case changed:
		s.readDirectory(ctx)
	case remade:
		s.remade = append(s.remade, m.sources...)
	case tick:
		if m.source == podspec.File {
			s.readDirectory(ctx)
			ctx.After(s.deps.PathPeriod, tick{podspec.File})
		} else {
			s.fetchURL(ctx)
			ctx.After(s.deps.URLPeriod, tick{podspec.HTTP})
		}
	case read:
		if s.reading.Take(m.id) {
			s.read(ctx, m)
		}
	case fetched:
		if s.fetching.Take(m.id) {
			s.fetched(ctx, m)
		}
	case watchEnded:
		e := ctx.Log().Warn().Str("path", s.deps.Path).Dur("every", s.deps.PathPeriod)
		if m.err != nil {
			e = e.Str("error", m.err.Error())
		}
		e.Msg("cannot watch the manifest directory; reading it periodically instead")
	}
}

func (s *sources) begin(ctx *kernel.Context[Message], restored remembered) {
	s.file, s.http = restored.File, restored.HTTP
	if s.deps.Path == "" {
		s.file, s.fileSeen = manifest.State{}, true
		s.deps.Update(Update{Source: podspec.File, Seen: true})
	} else {
		self := ctx.Self()
		ctx.Do(kernel.Effect[Message]{
			Kind: "WatchManifests", Object: s.deps.Path, Lane: fmt.Sprintf("watch/%d", ctx.Incarnation()), Standing: true,
			Run: func(c context.Context, _ kernel.EffectID, done func(Message)) {
				s.deps.Manifests.Watch(c, func(again []string) {
					if len(again) > 0 {
						self.Tell(remade{again})
					}
					self.Tell(changed{})
				}, func(err error) { done(watchEnded{err}) })
			},
		})
		s.readDirectory(ctx)
		ctx.After(s.deps.PathPeriod, tick{podspec.File})
	}
	if s.deps.URL == "" {
		s.http, s.httpSeen = manifest.State{}, true
		s.deps.Update(Update{Source: podspec.HTTP, Seen: true})
	} else {
		s.fetchURL(ctx)
		ctx.After(s.deps.URLPeriod, tick{podspec.HTTP})
	}
}

func (s *sources) readDirectory(ctx *kernel.Context[Message]) {
	if !s.checkpoint.Known() || s.reading.Busy() {
		s.again = true
		return
	}
	e := kernel.Effect[Message]{Kind: "ReadManifests", Object: s.deps.Path, Lane: "read", Deadline: s.deps.Deadline}
	s.reading.Begin(portcall.Do(ctx, e, s.deps.Manifests.Read,
		func(id kernel.EffectID, files []port.ManifestFile, err error) Message { return read{id, files, err} }))
}

func (s *sources) fetchURL(ctx *kernel.Context[Message]) {
	if s.fetching.Busy() {
		return
	}
	fresh := !s.httpSeen || s.fetchAll
	s.fetchAll = false
	e := kernel.Effect[Message]{Kind: "FetchManifests", Object: s.deps.URL, Lane: "fetch", Deadline: s.deps.Deadline}
	s.fetching.Begin(portcall.Do(ctx, e, func(c context.Context, done func(fetched, error)) {
		s.deps.Manifests.Fetch(c, fresh, func(data []byte, same bool, err error) {
			done(fetched{data: data, same: same}, err)
		})
	}, func(id kernel.EffectID, m fetched, err error) Message {
		m.id, m.err = id, err
		return m
	}))
}

func (s *sources) read(ctx *kernel.Context[Message], m read) {
	if s.again {
		s.again = false
		s.readDirectory(ctx)
	}
	if m.err != nil {
		// The directory as a whole. If it can't be read, what was wanted stays wanted. If it is gone, nothing is
		// wanted of it any more, as with a kubelet.
		s.unread = []manifest.Problem{{Source: s.deps.Path, Message: m.err.Error()}}
		ended := false
		if !errors.Is(m.err, fs.ErrNotExist) {
			s.missing = time.Time{}
		} else if s.gone(ctx) {
			ended = len(s.file.Manifests) > 0
			s.file, s.fileSeen, s.cache = manifest.State{}, true, map[string]cached{}
		}
		s.report(ctx, podspec.File, s.file)
		if ended {
			s.save(ctx)
		}
		return
	}
	s.missing, s.unread = time.Time{}, nil
	reads := make([]manifest.Read, 0, len(m.files))
	cache := make(map[string]cached, len(m.files))
	for _, f := range m.files {
		var d manifest.Decoded
		switch old, ok := s.cache[f.Name]; {
		case f.Err != nil:
			d = manifest.Reject(f.Name, f.Err.Error())
		case ok && bytes.Equal(old.data, f.Data):
			d = old.decoded
			cache[f.Name] = old
		default:
			d = manifest.Decode(f.Data, manifest.Source{Origin: podspec.File, Name: f.Name},
				manifest.Node{Name: s.deps.NodeName}, ctx.Now())
			cache[f.Name] = cached{f.Data, d}
		}
		reads = append(reads, manifest.Read{Source: f.Name, Decoded: d})
	}
	s.cache = cache
	s.endRemade(ctx, reads)
	before := s.file
	s.file = manifest.Merge(before, reads)
	if !s.fileSeen {
		s.dropped = before.Without(s.file)
	}
	s.fileSeen = true
	s.report(ctx, podspec.File, s.file)
	s.save(ctx)
}

// gone tells whether a directory that is not there is meant to be gone. It may be replaced by another one at
// this moment, and a kubelet, which does not hear of that, would not notice.
func (s *sources) gone(ctx *kernel.Context[Message]) bool {
	now := ctx.Now()
	if s.missing.IsZero() {
		s.missing = now
	}
	left := s.missing.Add(goneAfter).Sub(now)
	if left <= 0 || len(s.file.Manifests) == 0 {
		return true
	}
	ctx.After(left, changed{})
	return false
}

func (s *sources) fetched(ctx *kernel.Context[Message], m fetched) {
	if m.same {
		return
	}
	s.fetchAll = m.err != nil
	var d manifest.Decoded
	if m.err != nil {
		d = manifest.Reject(s.deps.URL, m.err.Error())
	} else {
		d = manifest.Decode(m.data, manifest.Source{Origin: podspec.HTTP, Name: s.deps.URL},
			manifest.Node{Name: s.deps.NodeName}, ctx.Now())
	}
	s.http = manifest.Merge(s.http, []manifest.Read{{Source: s.deps.URL, Decoded: d}})
	s.httpSeen = s.httpSeen || m.err == nil
	s.report(ctx, podspec.HTTP, s.http)
	s.save(ctx)
}

// problem is what is wrong with a manifest of a source.
type problem struct {
	source podspec.Origin
	text   string
}

// save writes what there is to remember, if it has changed. Some of it can't be compared otherwise.
func (s *sources) save(ctx *kernel.Context[Message]) {
	if data, err := json.Marshal(remembered{s.file, s.http}); err == nil && !bytes.Equal(data, s.written) {
		s.written = data
		s.checkpoint.Changed()
	}
	s.write(ctx)
}

func (s *sources) write(ctx *kernel.Context[Message]) {
	s.checkpoint.Write(ctx, func() remembered { return remembered{s.file, s.http} })
}
