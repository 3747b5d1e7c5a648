package kube

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/actors/port"
)

// Slices are the ResourceSlices of a node.
type Slices struct {
	client *Client
	node   string
}

var _ port.ResourceSlices = (*Slices)(nil)

// Slices makes the port of a node's ResourceSlices.
func (c *Client) Slices(node string) *Slices { return &Slices{c, node} }

func (s *Slices) rest() *rest.RESTClient {
	return s.client.rest[restKey{resourcev1.SchemeGroupVersion, ordinary}]
}

const resourceSlices = "resourceslices"

// SliceDrivers implements port.ResourceSlices.
func (s *Slices) SliceDrivers(ctx context.Context, done func([]string, error)) {
	k := call{verb: "list", object: "ResourceSlice", limit: readTimeout}
	run(s.client, ctx, k, func(ctx context.Context) ([]string, error) {
		var list resourcev1.ResourceSliceList
		err := s.rest().Get().Resource(resourceSlices).
			Param("fieldSelector", fields.Set{resourcev1.ResourceSliceSelectorNodeName: s.node}.String()).Do(ctx).Into(&list)
		var out []string
		for i := range list.Items {
			out = append(out, list.Items[i].Spec.Driver)
		}
		return out, err
	}, done)
}

// DeleteSlices implements port.ResourceSlices.
func (s *Slices) DeleteSlices(ctx context.Context, driver string, done func(error)) {
	k := call{verb: "delete", object: "ResourceSlices of " + driver, limit: writeTimeout, counts: true}
	run(s.client, ctx, k, func(ctx context.Context) (struct{}, error) {
		selector := fields.Set{
			resourcev1.ResourceSliceSelectorNodeName: s.node, resourcev1.ResourceSliceSelectorDriver: driver,
		}
		return struct{}{}, s.rest().Delete().Resource(resourceSlices).Param("fieldSelector", selector.String()).
			Body(&metav1.DeleteOptions{}).Do(ctx).Error()
	}, func(_ struct{}, err error) { done(err) })
}
