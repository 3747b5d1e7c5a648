package imagecache

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// GCPolicy is when images are removed (KubeletConfiguration imageGCHighThresholdPercent and the like).
type GCPolicy struct {
	// High and Low are percentages of the disk in use: from High on, images are removed until Low is reached.
	// A High of 100, or a zero Policy, never removes any because of the disk.
	High, Low int
	// MinAge is how long an image is kept after it was first seen, MaxAge how long one that is not used; 0 for
	// ever.
	MinAge, MaxAge time.Duration
}

// Excess is how many bytes must be freed: 0 below the high threshold, and on a disk that is not known.
func (p GCPolicy) Excess(disk eviction.Left) uint64 {
	if !disk.Known || disk.Capacity == 0 || !p.bySpace() {
		return 0
	}
	used := disk.Capacity - min(disk.Available, disk.Capacity)
	if part(used, disk.Capacity) < float64(p.High) {
		return 0
	}
	return used - min(used, uint64(float64(disk.Capacity)*float64(p.Low)/100))
}

// Below is how many bytes a disk is below that percentage in use; 0 for a disk that is not known.
func Below(disk eviction.Left, percent int) uint64 {
	if !disk.Known {
		return 0
	}
	limit := uint64(float64(disk.Capacity) * float64(percent) / 100)
	return limit - min(limit, disk.Capacity-min(disk.Available, disk.Capacity))
}

// NoSize says whether images should go because of the disk, and its file system can be looked at but has no size. A
// file system that could not be looked at has no device.
func (p GCPolicy) NoSize(disk eviction.Disk) bool {
	return p.bySpace() && disk.Device != "" && disk.Bytes.Capacity == 0
}

func (p GCPolicy) bySpace() bool { return p.High > 0 && p.High < 100 }

// Percent is how much of a disk is in use, rounded up.
func Percent(disk eviction.Left) int {
	if disk.Capacity == 0 {
		return 0
	}
	return int(math.Ceil(part(disk.Capacity-min(disk.Available, disk.Capacity), disk.Capacity)))
}

// StaysFull is the message of the event FreeDiskSpaceFailed: images of freed bytes went, and excess bytes are still too
// much. It begins with the words and numbers of the kubelet, which operators search for.
func StaysFull(disk eviction.Left, freed, excess uint64) string {
	return fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+
		"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"%d bytes more must become free: check what else fills this disk, such as images in use, logs or volumes.",
		Percent(disk), size(disk.Capacity), freed, excess)
}

// size is a number of bytes for people.
func size(bytes uint64) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	n, unit := float64(bytes)/(1<<10), 0
	units := [...]string{"KiB", "MiB", "GiB", "TiB"}
	for n >= 1<<10 && unit < len(units)-1 {
		n, unit = n/(1<<10), unit+1
	}
	return fmt.Sprintf("%.1f %s", n, units[unit])
}

func part(of, whole uint64) float64 { return float64(of) / float64(whole) * 100 }

// Age is when an image was first seen, and when a pod was last seen to use it.
type Age struct {
	Seen time.Time `json:"seen"`
	Used time.Time `json:"used,omitzero"`
}

// last is when there was last a reason to keep the image.
func (a Age) last() time.Time {
	if a.Used.After(a.Seen) {
		return a.Used
	}
	return a.Seen
}

// Ages are those of the images on a node, by ID.
type Ages map[string]Age

// See notes which images there are, and are in use, at now. What is gone is forgotten.
func (a Ages) See(list []observed.Image, used map[string]bool, now time.Time) Ages {
	next := make(Ages, len(list))
	for i := range list {
		id := list[i].ID
		age, known := a[id]
		if !known || age.Seen.After(now) { // the clock was set back
			age.Seen = now
		}
		if used[id] || age.Used.After(now) {
			age.Used = now
		}
		next[id] = age
	}
	return next
}

// Reason is why an image is removed; the values are those of the kubelet's metric.
type Reason string

// The reasons.
const (
	Space Reason = "space"
	Old   Reason = "age"
)

// Removal is one image to remove.
type Removal struct {
	Image  observed.Image
	Reason Reason
}

// Candidates are the images that may be removed, least recently used first.
func Candidates(list []observed.Image, used map[string]bool, ages Ages) []observed.Image {
	var out []observed.Image
	for i := range list {
		if img := &list[i]; !img.Pinned && !used[img.ID] && !OfSandbox(img) {
			out = append(out, *img)
		}
	}
	slices.SortFunc(out, func(x, y observed.Image) int {
		a, b := ages[x.ID], ages[y.ID]
		return cmp.Or(a.Used.Compare(b.Used), a.Seen.Compare(b.Seen), cmp.Compare(y.SizeBytes, x.SizeBytes),
			cmp.Compare(x.ID, y.ID))
	})
	return out
}

// AheadFirst are the candidates in the order in which they go for space: first those that were pulled before any pod
// wanted them (ahead, by ID) and that no pod has used.
func AheadFirst(candidates []observed.Image, ages Ages, ahead map[string]bool) []observed.Image {
	rank := func(i observed.Image) int {
		if ahead[i.ID] && ages[i.ID].Used.IsZero() {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(candidates), func(a, b observed.Image) int {
		return cmp.Compare(rank(a), rank(b))
	})
}

// Plan says which of the candidates to remove, in that order: those that are too old, and then as many as excess
// needs. Those that are on the node for pods to come (keep, by ID) are never too old. found is how many bytes they are
// said to take, which may be more than they free: images share layers.
func (p GCPolicy) Plan(
	candidates []observed.Image, ages Ages, keep map[string]bool, excess uint64, now time.Time,
) (out []Removal, found uint64) {
	var rest []observed.Image
	for i := range candidates {
		img := candidates[i]
		if p.MaxAge > 0 && !keep[img.ID] && now.Sub(ages[img.ID].last()) > p.MaxAge {
			out = append(out, Removal{img, Old})
			found += img.SizeBytes
		} else {
			rest = append(rest, img)
		}
	}
	for i := range rest {
		if found >= excess {
			break
		}
		if now.Sub(ages[rest[i].ID].Seen) < p.MinAge {
			continue
		}
		out = append(out, Removal{rest[i], Space})
		found += rest[i].SizeBytes
	}
	return out, found
}

// RemoveAll removes all candidates, also young ones: they are given up before pods are.
func RemoveAll(candidates []observed.Image) []Removal {
	out := make([]Removal, len(candidates))
	for i := range candidates {
		out[i] = Removal{candidates[i], Space}
	}
	return out
}

// OfSandbox says whether an image is that of sandboxes. Runtimes since containerd 1.7 pin it; before, only its
// name tells.
func OfSandbox(img *observed.Image) bool {
	for _, names := range [...][]string{img.RepoTags, img.RepoDigests} {
		for _, name := range names {
			if r, err := imagepull.ParseReference(name); err == nil && path.Base(r.Path) == "pause" {
				return true
			}
		}
	}
	return false
}

// InUse are the IDs of the images that containers were made from, dead ones too, or that pods are about to use.
// names are those pods' names of images, or IDs.
func InUse(list []observed.Image, runtime *observed.Runtime, names []string) map[string]bool {
	find := Finder(list)
	used := map[string]bool{}
	mark := func(name string) {
		if id, ok := find(name); ok {
			used[id] = true
		}
	}
	for i := range runtime.Pods {
		for j := range runtime.Pods[i].Containers {
			c := &runtime.Pods[i].Containers[j]
			mark(c.ImageRef)
			mark(c.Image)
		}
	}
	for _, name := range names {
		mark(name)
	}
	return used
}

// Finder finds the ID of an image in a list by any of its names, or by its ID.
func Finder(list []observed.Image) func(name string) (id string, ok bool) {
	by := index(list)
	return func(name string) (string, bool) {
		for _, form := range [...]string{name, canonical(name), byDigest(name)} {
			if id, ok := by[form]; ok {
				return id, true
			}
		}
		return "", false
	}
}

// IDs are those of the images of a list that have one of these names.
func IDs(list []observed.Image, names []string) map[string]bool {
	ids := map[string]bool{}
	if len(names) == 0 {
		return ids
	}
	find := Finder(list)
	for _, name := range names {
		if id, ok := find(name); ok {
			ids[id] = true
		}
	}
	return ids
}

// index finds images by ID and by all their names.
func index(list []observed.Image) map[string]string {
	by := map[string]string{}
	for i := range list {
		img := &list[i]
		by[img.ID] = img.ID
		for _, names := range [...][]string{img.RepoTags, img.RepoDigests} {
			for _, name := range names {
				by[canonical(name)] = img.ID
			}
		}
	}
	return by
}

// canonical is the full form of a name; the name itself if it is not one.
func canonical(name string) string {
	if r, err := imagepull.ParseReference(strings.TrimSpace(name)); err == nil {
		return r.String()
	}
	return name
}

// byDigest is a name with a tag and a digest without the tag, as runtimes list it.
func byDigest(name string) string {
	if r, err := imagepull.ParseReference(name); err == nil && r.Digest != "" {
		return r.Name() + "@" + r.Digest
	}
	return name
}
