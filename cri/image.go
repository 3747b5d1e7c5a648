package cri

import (
	"context"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/readback"
)

// ImageStatus implements port.Runtime.
func (c *Client) ImageStatus(ctx context.Context, image string, done func(img observed.Image, ok bool, err error)) {
	run(c, ctx, call{"ImageStatus", image, c.deadlines.inspect()}, func(ctx context.Context) (*runtimeapi.Image, error) {
		answer, err := c.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
		if unlessGone(err) == nil && err != nil {
			return nil, nil // CRI-O reports some missing images so
		}
		return answer.GetImage(), err
	}, func(image *runtimeapi.Image, err error) {
		if image == nil {
			done(observed.Image{}, false, err)
			return
		}
		done(readback.Image(image), true, nil)
	})
}

// ListImages implements port.Runtime. The images come in order of their ID.
func (c *Client) ListImages(ctx context.Context, done func([]observed.Image, error)) {
	run(c, ctx, call{"ListImages", "", c.deadlines.list()}, func(ctx context.Context) ([]observed.Image, error) {
		images, err := listed(c, func() ([]*runtimeapi.Image, error) {
			stream, err := c.images.StreamImages(ctx, &runtimeapi.StreamImagesRequest{})
			return collect(stream, err, (*runtimeapi.StreamImagesResponse).GetImages)
		}, func() ([]*runtimeapi.Image, error) {
			answer, err := c.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
			return answer.GetImages(), err
		})
		if err != nil {
			return nil, err
		}
		return sortedImages(images), nil
	}, done)
}

// RemoveImage implements port.Runtime.
func (c *Client) RemoveImage(ctx context.Context, image string, done func(error)) {
	run0(c, ctx, call{"RemoveImage", image, c.deadlines.request}, func(ctx context.Context) error {
		_, err := c.images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: image}})
		return unlessGone(err)
	}, done)
}

func sortedImages(images []*runtimeapi.Image) []observed.Image {
	out := make([]observed.Image, 0, len(images))
	for _, i := range images {
		out = append(out, readback.Image(i))
	}
	slices.SortFunc(out, func(a, b observed.Image) int { return strings.Compare(a.ID, b.ID) })
	return out
}
