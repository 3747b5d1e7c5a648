package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
)

// diskLatency is how long it takes to read or write a small file.
const diskLatency = time.Millisecond

// checkpoints outlive the agent.
type checkpoints struct {
	n    *Node
	data map[string][]byte
}

// Load implements port.Checkpoints.
func (c *checkpoints) Load(_ context.Context, name string, done func([]byte, error)) {
	c.n.world.clock.AfterFunc(diskLatency, func() { done(c.data[name], nil) })
}

// Save implements port.Checkpoints.
func (c *checkpoints) Save(ctx context.Context, name string, data []byte, done func(error)) {
	c.n.world.clock.AfterFunc(3*diskLatency, func() {
		if ctx.Err() != nil {
			done(&port.Error{Kind: port.Canceled, Verb: "Save", Object: name, Detail: "the caller gave up"})
			return
		}
		if c.data == nil {
			c.data = map[string][]byte{}
		}
		c.data[name] = slices.Clone(data)
		done(nil)
	})
}

// manifests is a machine's manifest directory.
type manifests struct {
	n       *Node
	files   map[string][]byte
	watches []*manifestWatch
}

type manifestWatch struct {
	ctx     context.Context
	changed func()
}

// Read implements port.Manifests.
func (m *manifests) Read(_ context.Context, done func([]port.ManifestFile, error)) {
	m.n.world.clock.AfterFunc(diskLatency, func() {
		var files []port.ManifestFile
		for _, name := range slices.Sorted(maps.Keys(m.files)) {
			files = append(files, port.ManifestFile{Name: name, Data: m.files[name]})
		}
		done(files, nil)
	})
}

// Watch implements port.Manifests.
func (m *manifests) Watch(ctx context.Context, changed func(), _ func(error)) {
	m.watches = append(m.watches, &manifestWatch{ctx, changed})
}

// hint tells those who watch.
func (m *manifests) hint() {
	m.watches = slices.DeleteFunc(m.watches, func(w *manifestWatch) bool { return w.ctx.Err() != nil })
	for _, w := range m.watches {
		m.n.world.clock.AfterFunc(diskLatency, w.changed)
	}
}

// Fetch implements port.Manifests. There is no manifest URL.
func (m *manifests) Fetch(_ context.Context, _ bool, done func([]byte, bool, error)) {
	m.n.world.clock.AfterFunc(diskLatency, func() { done(nil, true, nil) })
}

// recorder takes the events of a node's pods.
type recorder struct{ n *Node }

// Record implements port.Recorder.
func (r recorder) Record(e port.Event) { r.n.world.recorded(r.n, e) }
