// Package damage makes damaged checkpoints out of good ones, and feeds them to their readers.
package damage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// Of damages the JSON of a checkpoint's content. Half of the results have a checksum that fits, as if an agent
// had written them: these must be told by their shape.
func Of(r *rand.Rand, content []byte) []byte { return Sealed(r, content, checkpoint.Seal) }

// Sealed is Of for files that seal makes of content.
func Sealed(r *rand.Rand, content []byte, seal func([]byte) []byte) []byte {
	switch r.IntN(8) {
	case 0: // a write that was cut
		whole := seal(content)
		return whole[:r.IntN(len(whole))]
	case 1, 2: // bits
		data := seal(content)
		for range 1 + r.IntN(8) {
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
		}
		return data
	case 3: // a sector of another file, or of none
		data := seal(content)
		for i := r.IntN(len(data)); i < len(data); i++ {
			data[i] = byte(r.IntN(2) * r.IntN(256))
		}
		return data
	case 4: // another shape
		shapes := []string{
			"", "null", "0", `""`, "[]", "{}", "true", `{"pods":null}`, `{"pods":[]}`, `{"pods":{"a":null}}`, "{", "[[[[",
			`{"file":{"manifests":[{"source":"a","pods":[null]}]}}`, `{"containers":{"a":[]}}`, `{"pods":{"":{}}}`,
			strings.Repeat("[", 1<<14), strings.Repeat(" ", 1<<20), `{"x":"` + strings.Repeat("y", 4<<20) + `"}`,
			`{"file":{"manifests":[{"source":"b"},{"source":"a"},{"source":"a"}]},"http":{"manifests":null}}`,
		}
		return []byte(shapes[r.IntN(len(shapes))])
	default:
		var v any
		if err := json.Unmarshal(content, &v); err != nil {
			panic(err)
		}
		for range 1 + r.IntN(3) {
			v = mutate(r, v)
		}
		data, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return seal(data)
	}
}

// SealClaims makes a dra_manager_state of the list of its claims.
func SealClaims(claims []byte) []byte {
	content := fmt.Appendf(nil, `{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1",`+
		`"ClaimInfoStateList":%s}`, claims)
	data, err := json.Marshal(map[string]any{"Data": string(content), "Checksum": crc32.ChecksumIEEE(content)})
	if err != nil {
		panic(err) // a string and a number
	}
	return data
}

// mutate changes one value somewhere in v to one of any type.
func mutate(r *rand.Rand, v any) any {
	if r.IntN(4) > 0 {
		switch v := v.(type) {
		case map[string]any:
			if keys := slices.Sorted(maps.Keys(v)); len(keys) > 0 {
				key := keys[r.IntN(len(keys))]
				if r.IntN(8) == 0 {
					delete(v, key)
				} else {
					v[key] = mutate(r, v[key])
				}
				return v
			}
		case []any:
			if len(v) > 0 {
				i := r.IntN(len(v))
				v[i] = mutate(r, v[i])
				return v
			}
		}
	}
	return []any{
		nil, true, -1, 0, 1.5, 1e300, "", "x", "../../etc", "2026-01-01T00:00:00Z", "-5Gi", []any{}, []any{nil}, map[string]any{},
		map[string]any{"x": nil}, strings.Repeat("long", 1000),
	}[r.IntN(16)]
}

// Readings is how often Feed feeds a reader. With the race detector it is less: CI runs all without it.
var Readings = readings()

func readings() int {
	if actortest.Raced {
		return 200
	}
	return 1000
}

// Feed gives damaged contents of one file to an actor, through the store of a real agent. content is
// what a good one has. Whatever can't be used is set aside with one line in the log, at most one file of it is
// kept, and the checkpoint can be written again.
func Feed[T any](t *testing.T, f *checkpoint.File[T], content string) {
	t.Helper()
	if _, err := f.Open(checkpoint.Seal([]byte(content))); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, f.Name+".json")
	store := blocking{checkpoints.New(dir)}
	r := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test that can be repeated
	bad := 0
	for i := range Readings {
		data := Of(r, []byte(content))
		check.Fatal(t, os.RemoveAll(path))
		switch i {
		case 7, 8: // not readable
			check.Fatal(t, os.Mkdir(path, 0o700))
		default:
			check.Fatal(t, os.WriteFile(path, data, 0o600))
		}
		logged := load(t, f, store)
		if _, err := os.Lstat(path); err == nil {
			if _, err := f.Open(data); err != nil || logged != "" {
				t.Fatalf("%d: %.200q is still there; logged %s", i, data, logged)
			}
			continue
		}
		bad++
		if strings.Count(logged, "\n") != 1 || !strings.Contains(logged, path+".damaged") || !strings.Contains(logged, f.Name) {
			t.Fatalf("%d: %.200q: logged %s", i, data, logged)
		}
		if kept, err := os.ReadFile(path + ".damaged"); i != 7 && i != 8 && (err != nil || !bytes.Equal(kept, data)) {
			t.Fatalf("%d: set aside is %.200q, %v", i, kept, err)
		}
		if bad%10 > 0 { // a write is slow: it is flushed
			continue
		}
		store.Save(t.Context(), f.Name, checkpoint.Seal([]byte(content)), func(err error) {
			if err != nil {
				t.Fatalf("%d: %v", i, err)
			}
		})
		check.Fatal(t, check.Is(load(t, f, store), "", "%d: after it was written again", i))
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 2 {
		t.Errorf("%v, %v are left", files, err)
	}
	t.Logf("%d of %d were set aside; the others say something else, which can be used", bad, Readings)
}

// Parse gives damaged contents of a file of the kubelet to its parser, which must say so or accept it, and never panic.
// content is what a good one has, and seal makes the file of it. It tells how many were refused.
func Parse(t *testing.T, content string, seal func([]byte) []byte, parse func([]byte) error) (refused int) {
	t.Helper()
	if err := parse(seal([]byte(content))); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	r := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test that can be repeated
	for range Readings {
		data := Sealed(r, []byte(content), seal)
		err := parse(data)
		if err == nil {
			continue
		}
		refused++
		if err.Error() == "" {
			t.Errorf("%.200q is refused without a reason", data)
		}
	}
	t.Logf("%d of %d were refused; the others say something else, which can be used", refused, Readings)
	return refused
}

// load reads a checkpoint as an actor does, and returns what it logs.
func load[T any](t *testing.T, f *checkpoint.File[T], store port.Checkpoints) string {
	rig := actortest.New(t)
	a := &actor[T]{file: f, store: store}
	actortest.Spawn(rig, kernel.Spec[read]{Name: "reader", Runner: rig.Runner(), New: func() kernel.Behavior[read] { return a }})
	rig.Advance(time.Second)
	if !a.done {
		t.Fatal("it was not read")
	}
	return rig.Log.String()
}

type read struct{ content checkpoint.Content }

type actor[T any] struct {
	file  *checkpoint.File[T]
	store port.Checkpoints
	done  bool
}

// Start implements kernel.Behavior.
func (a *actor[T]) Start(ctx *kernel.Context[read]) {
	checkpoint.Load(ctx, a.store, a.file, func(_ kernel.EffectID, c checkpoint.Content) read { return read{c} })
}

// Receive implements kernel.Behavior.
func (a *actor[T]) Receive(ctx *kernel.Context[read], m read) {
	a.file.Take(ctx.Log(), &m.content)
	a.done = true
}

// blocking answers before it returns, so that a virtual clock need not wait for a disk.
type blocking struct{ store *checkpoints.Store }

// Load implements port.Checkpoints.
func (b blocking) Load(ctx context.Context, name string, done func([]byte, error)) {
	answer := make(chan func(), 1)
	b.store.Load(ctx, name, func(data []byte, err error) { answer <- func() { done(data, err) } })
	(<-answer)()
}

// Save implements port.Checkpoints.
func (b blocking) Save(ctx context.Context, name string, data []byte, done func(error)) {
	answer := make(chan func(), 1)
	b.store.Save(ctx, name, data, func(err error) { answer <- func() { done(err) } })
	(<-answer)()
}

// SetAside implements port.Checkpoints.
func (b blocking) SetAside(ctx context.Context, name string, done func(string, error)) {
	answer := make(chan func(), 1)
	b.store.SetAside(ctx, name, func(where string, err error) { answer <- func() { done(where, err) } })
	(<-answer)()
}
