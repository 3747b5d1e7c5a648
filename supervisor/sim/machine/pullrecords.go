package machine

import (
	"context"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// PullRecords are kept on the machine's disk.
type PullRecords struct {
	Calls
	// intents and records are files by name, asideIntents and aside those that were set aside.
	intents, records, asideIntents, aside map[string][]byte
}

var _ port.PullRecords = (*PullRecords)(nil)

func newPullRecords(clock simport.Clock) *PullRecords {
	return &PullRecords{
		Calls: Calls{clock: clock}, intents: map[string][]byte{}, records: map[string][]byte{},
		asideIntents: map[string][]byte{}, aside: map[string][]byte{},
	}
}

// Load implements port.PullRecords.
func (p *PullRecords) Load(ctx context.Context, done func(port.PullFiles, error)) {
	var all port.PullFiles
	p.do(ctx, Call{Verb: "LoadPullRecords"}, diskLatency, func(err error) { done(all, err) }, func() error {
		all = p.all()
		return nil
	})
}

func (p *PullRecords) all() (out port.PullFiles) {
	for _, name := range slices.Sorted(maps.Keys(p.intents)) {
		out.Intents = append(out.Intents, port.PullFile{Intent: true, Name: name, Data: slices.Clone(p.intents[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(p.records)) {
		out.Records = append(out.Records, port.PullFile{Name: name, Data: slices.Clone(p.records[name])})
	}
	out.Aside, out.AsideIntents = slices.Sorted(maps.Keys(p.aside)), slices.Sorted(maps.Keys(p.asideIntents))
	return out
}

// SaveIntent implements port.PullRecords.
func (p *PullRecords) SaveIntent(ctx context.Context, name string, data []byte, done func(error)) {
	data = slices.Clone(data)
	p.do(ctx, Call{Verb: "SavePullIntent", Name: name}, writeLatency, done, func() error {
		p.intents[name] = data
		return nil
	})
}

// SavePulled implements port.PullRecords.
func (p *PullRecords) SavePulled(ctx context.Context, name string, data []byte, intent string, done func(error)) {
	data = slices.Clone(data)
	p.do(ctx, Call{Verb: "SavePullRecord", Name: name}, writeLatency, done, func() error {
		if name != "" {
			p.records[name] = data
		}
		delete(p.intents, intent)
		delete(p.asideIntents, intent)
		return nil
	})
}

// RemovePulled implements port.PullRecords.
func (p *PullRecords) RemovePulled(ctx context.Context, name string, done func(error)) {
	p.do(ctx, Call{Verb: "RemovePullRecord", Name: name}, writeLatency, done, func() error {
		delete(p.records, name)
		delete(p.aside, name)
		return nil
	})
}

// SetAside implements port.PullRecords.
func (p *PullRecords) SetAside(ctx context.Context, f port.PullFile, done func(string, error)) {
	call := Call{Verb: "SetAsidePullRecord", Name: f.Name}
	p.do(ctx, call, writeLatency, func(err error) { done("damaged-"+f.Name, err) }, func() error {
		from, to := p.records, p.aside
		if f.Intent {
			from, to = p.intents, p.asideIntents
		}
		data, there := from[f.Name]
		if !there {
			return &port.Error{Verb: call.Verb, Object: f.Name, Detail: "no such file"}
		}
		delete(from, f.Name)
		to[f.Name] = data
		return nil
	})
}

// Get gives all files.
func (p *PullRecords) Get() port.PullFiles {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all()
}

// Put replaces a file.
func (p *PullRecords) Put(f port.PullFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Intent {
		p.intents[f.Name] = f.Data
		return
	}
	p.records[f.Name] = f.Data
}
