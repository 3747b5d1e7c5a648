package machine

import (
	"context"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// Checkpoints are kept on the machine's disk.
type Checkpoints struct {
	Calls
	data map[string][]byte
	// before are the checkpoints as they were before the last Save of each; nil for one that was
	// not there.
	before map[string][]byte
	// aside are those that were set aside.
	aside map[string][]byte
}

var _ port.Checkpoints = (*Checkpoints)(nil)

// Load implements port.Checkpoints.
func (c *Checkpoints) Load(ctx context.Context, name string, done func([]byte, error)) {
	var data []byte
	c.do(ctx, Call{Verb: "LoadCheckpoint", Name: name}, diskLatency, func(err error) { done(data, err) }, func() error {
		data = slices.Clone(c.data[name])
		return nil
	})
}

// Save implements port.Checkpoints.
func (c *Checkpoints) Save(ctx context.Context, name string, data []byte, done func(error)) {
	data = slices.Clone(data)
	c.do(ctx, Call{Verb: "SaveCheckpoint", Name: name}, writeLatency, done, func() error {
		if c.data == nil {
			c.data = map[string][]byte{}
		}
		if c.before == nil {
			c.before = map[string][]byte{}
		}
		c.before[name] = c.data[name]
		c.data[name] = data
		return nil
	})
}

// SetAside implements port.Checkpoints.
func (c *Checkpoints) SetAside(ctx context.Context, name string, done func(string, error)) {
	call := Call{Verb: "SetAsideCheckpoint", Name: name}
	c.do(ctx, call, writeLatency, func(err error) { done(name+".damaged", err) }, func() error {
		if c.aside == nil {
			c.aside = map[string][]byte{}
		}
		c.aside[name] = c.data[name]
		delete(c.data, name)
		delete(c.before, name)
		return nil
	})
}

// Aside gives what was set aside of a checkpoint, nil if nothing was.
func (c *Checkpoints) Aside(name string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.aside[name])
}

// Get gives a checkpoint, nil if there is none of that name.
func (c *Checkpoints) Get(name string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.data[name])
}

// Put replaces a checkpoint; nil data removes it.
func (c *Checkpoints) Put(name string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if data == nil {
		delete(c.data, name)
		return
	}
	if c.data == nil {
		c.data = map[string][]byte{}
	}
	c.data[name] = data
}

// Lose removes a checkpoint.
func (c *Checkpoints) Lose(name string) { c.Put(name, nil) }

// Rollback undoes the last Save of a checkpoint, as a disk does that lost its last writes. It
// changes nothing if there was no Save, or if it was undone already.
func (c *Checkpoints) Rollback(name string) {
	c.mu.Lock()
	before, saved := c.before[name]
	delete(c.before, name)
	c.mu.Unlock()
	if saved {
		c.Put(name, before)
	}
}

// Clear removes all checkpoints.
func (c *Checkpoints) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.data)
}

// Manifests is the manifest directory of a machine, and what its manifest URL answers.
type Manifests struct {
	Calls
	// ReadErr is why the directory cannot be read, FetchErr why the URL does not
	// answer.
	ReadErr, FetchErr error
	// Missed loses the hints of changes.
	Missed bool
	// Body is what the URL answers.
	Body string

	files map[string][]byte
	// gone are files that were there.
	gone    map[string]bool
	fetched string
	watches []*manifestWatch
}

var _ port.Manifests = (*Manifests)(nil)

type manifestWatch struct {
	ctx     context.Context
	changed func(again []string)
}

// Read implements port.Manifests.
func (m *Manifests) Read(ctx context.Context, done func([]port.ManifestFile, error)) {
	var files []port.ManifestFile
	m.do(ctx, Call{Verb: "ReadManifests"}, diskLatency, func(err error) { done(files, err) }, func() error {
		if m.ReadErr != nil {
			return m.ReadErr
		}
		for _, name := range slices.Sorted(maps.Keys(m.files)) {
			files = append(files, port.ManifestFile{Name: name, Data: m.files[name]})
		}
		return nil
	})
}

// Watch implements port.Manifests.
func (m *Manifests) Watch(ctx context.Context, changed func(again []string), done func(error)) {
	simport.OnEnd(ctx, func() { done(nil) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches = append(m.heard(), &manifestWatch{ctx, changed})
}

// heard are the watches that have not ended.
func (m *Manifests) heard() []*manifestWatch {
	return slices.DeleteFunc(m.watches, func(w *manifestWatch) bool { return w.ctx.Err() != nil })
}

// Fetch implements port.Manifests.
func (m *Manifests) Fetch(ctx context.Context, fresh bool, done func([]byte, bool, error)) {
	var data []byte
	var same bool
	m.do(ctx, Call{Verb: "FetchManifest"}, hostLatency, func(err error) { done(data, same, err) }, func() error {
		switch {
		case m.FetchErr != nil:
			return m.FetchErr
		case m.Body == m.fetched && !fresh:
			same = true
		default:
			m.fetched, data = m.Body, []byte(m.Body)
		}
		return nil
	})
}

// Write puts a file into the directory, or replaces it; nil data removes it.
func (m *Manifests) Write(name string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		m.files, m.gone = map[string][]byte{}, map[string]bool{}
	}
	var again []string
	if data == nil {
		m.gone[name] = m.gone[name] || m.files[name] != nil
		delete(m.files, name)
	} else {
		if m.gone[name] {
			again = []string{name}
			delete(m.gone, name)
		}
		m.files[name] = data
	}
	m.watches = m.heard()
	if m.Missed {
		return
	}
	for _, w := range m.watches {
		m.clock.AfterFunc(diskLatency, func() { w.changed(again) })
	}
}

// Remove takes a file out of the directory.
func (m *Manifests) Remove(name string) { m.Write(name, nil) }
