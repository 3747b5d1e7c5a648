package simcri

import (
	"context"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// findImage finds a present image by name, ID or digest.
func (r *Runtime) findImage(ref string) *image {
	if img := r.images[ref]; img != nil {
		return img
	}
	if full, ok := normalName(ref); ok {
		return r.images[full]
	}
	return nil
}

// addImage makes an image present, under all its names.
func (r *Runtime) addImage(img *image) {
	for _, key := range [...]string{img.name, img.id, img.digest} {
		r.images[key] = img
	}
}

func (r *Runtime) deleteImage(img *image) {
	for _, key := range [...]string{img.name, img.id, img.digest} {
		delete(r.images, key)
	}
}

// listImages lists the present images, ordered by ID.
func (r *Runtime) listImages() []*image {
	var all []*image
	for key, img := range r.images {
		if key == img.id {
			all = append(all, img)
		}
	}
	slices.SortFunc(all, func(a, b *image) int { return strings.Compare(a.id, b.id) })
	return all
}

// PullImage implements port.Runtime. The answer is the image's ID. A present image costs only a
// request to the registry.
func (r *Runtime) PullImage(ctx context.Context, q port.PullImage, done func(string, error)) {
	call := Call{Method: PullImage, Object: q.Image}
	if q.Pod != nil {
		call.Pod = refOf(q.Pod)
	}
	r.begin(ctx, call, func(err error) { done("", err) }, nil, func(o *op) {
		size, err := imageSizeFor(q.Pod, q.Image)
		if err != nil {
			o.Refusef(port.InvalidConfig, err.Error())
			return
		}
		img, refusal := r.cfg.Registry.resolve(q.Image, q.Auth, size)
		if refusal != nil {
			o.Refuse(refusal)
			return
		}
		if have := r.images[img.name]; have != nil {
			o.Reply(func() { done(have.id, nil) })
			return
		}
		if o.Answered() {
			// There is no waiter left, and a download without a waiter is cancelled.
			o.Drop()
			return
		}
		o.Undo = r.pull(img, func() { o.Reply(func() { done(img.id, nil) }) })
	})
}

// ImageStatus implements port.Runtime.
func (r *Runtime) ImageStatus(ctx context.Context, name string, done func(observed.Image, bool, error)) {
	r.begin(ctx, Call{Method: ImageStatus, Object: name},
		func(err error) { done(observed.Image{}, false, err) }, nil,
		func(o *op) {
			var seen observed.Image
			img := r.findImage(name)
			if img != nil {
				seen = img.observe()
			}
			o.Reply(func() { done(seen, img != nil, nil) })
		})
}

// ListImages implements port.Runtime. The images are in order of ID.
func (r *Runtime) ListImages(ctx context.Context, done func([]observed.Image, error)) {
	r.begin(ctx, Call{Method: ListImages},
		func(err error) { done(nil, err) }, nil,
		func(o *op) {
			var all []observed.Image
			for _, img := range r.listImages() {
				all = append(all, img.observe())
			}
			o.Reply(func() { done(all, nil) })
		})
}

// RemoveImage implements port.Runtime. Containers made from it live on.
func (r *Runtime) RemoveImage(ctx context.Context, name string, done func(error)) {
	r.begin(ctx, Call{Method: RemoveImage, Object: name}, done, nil, func(o *op) {
		if img := r.findImage(name); img != nil {
			r.deleteImage(img)
		}
		o.Reply(func() { done(nil) })
	})
}
