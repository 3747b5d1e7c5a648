// Package lastuse remembers where volumes are that are measured, and what they took when they were.
package lastuse

import (
	"sync"

	"github.com/troupe-dev/troupe/actors/decide/usage"
)

// Book is what is known of the volumes of pods, by UID and name of the volume. The zero value is ready for use.
type Book struct {
	mu sync.Mutex
	// places are where the volumes of claims and of servers are, of pods that have one.
	places map[string]map[string]string
	// sizes are what volumes take: those with files of the API since they were written, those with a file system of their
	// own when it was asked last.
	sizes map[string]map[string]usage.Disk
	// written counts how often a volume got new content, or went.
	written uint64
}

// SetPlace remembers where the volume of a claim or of a server is.
func (b *Book) SetPlace(uid, volume, path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	set(&b.places, uid, volume, path)
}

// Place is where such a volume is, empty if nobody said.
func (b *Book) Place(uid, volume string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.places[uid][volume]
}

// Forget forgets all of a pod.
func (b *Book) Forget(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written++ // what is measured just now is of no use
	delete(b.places, uid)
	delete(b.sizes, uid)
}

// Contents says how often volumes got new content so far, for SetSize.
func (b *Book) Contents() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written
}

// Size is what a volume takes, if that is known.
func (b *Book) Size(uid, volume string) (usage.Disk, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, is := b.sizes[uid][volume]
	return d, is
}

// SetSize remembers what a volume with files of the API takes, unless one was written after contents: it may be this
// one.
func (b *Book) SetSize(uid, volume string, d usage.Disk, contents uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written == contents {
		set(&b.sizes, uid, volume, d)
	}
}

// SetUse remembers what was measured last of a volume that has a place, if it is there still.
func (b *Book) SetUse(uid, volume string, d usage.Disk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.places[uid][volume] != "" {
		set(&b.sizes, uid, volume, d)
	}
}

// ForgetSize has a volume measured again: its files were written.
func (b *Book) ForgetSize(uid, volume string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written++
	delete(b.sizes[uid], volume)
}

func set[V any](of *map[string]map[string]V, uid, volume string, v V) {
	if *of == nil {
		*of = map[string]map[string]V{}
	}
	if (*of)[uid] == nil {
		(*of)[uid] = map[string]V{}
	}
	(*of)[uid][volume] = v
}
