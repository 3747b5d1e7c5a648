package host

import "github.com/troupe-dev/troupe/actors/decide/usage"

// contents says how often volumes got new content so far, for noteSize.
func (h *Host) contents() uint64 {
	h.placesMu.Lock()
	defer h.placesMu.Unlock()
	return h.written
}

// sizeOf is what a volume with files of the API takes, if it was measured since they were written.
func (h *Host) sizeOf(uid, volume string) (usage.Disk, bool) {
	h.placesMu.Lock()
	defer h.placesMu.Unlock()
	d, is := h.sizes[uid][volume]
	return d, is
}

// noteSize remembers what such a volume takes, unless one was written after contents: it may be this one.
func (h *Host) noteSize(uid, volume string, d usage.Disk, contents uint64) {
	h.placesMu.Lock()
	defer h.placesMu.Unlock()
	if h.written != contents {
		return
	}
	if h.sizes == nil {
		h.sizes = map[string]map[string]usage.Disk{}
	}
	if h.sizes[uid] == nil {
		h.sizes[uid] = map[string]usage.Disk{}
	}
	h.sizes[uid][volume] = d
}

// forgetSize has a volume measured again: its files were written.
func (h *Host) forgetSize(uid, volume string) {
	h.placesMu.Lock()
	defer h.placesMu.Unlock()
	h.written++
	delete(h.sizes[uid], volume)
}
