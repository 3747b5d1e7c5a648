package drivertest

import (
	"fmt"
	"strings"

	health "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	api "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
)

// Hostile makes answers that no driver should give, and some that one may. The same seed gives the same.
type Hostile struct{ *plugintest.Hostile }

// NewHostile begins with a seed.
func NewHostile(seed uint64) Hostile { return Hostile{plugintest.NewHostile(seed)} }

// Prepare is an answer to NodePrepareResources.
func (h Hostile) Prepare(claims []*api.Claim) (*api.NodePrepareResourcesResponse, error) {
	if h.IntN(8) == 0 {
		return nil, h.Error()
	}
	out := &api.NodePrepareResourcesResponse{Claims: map[string]*api.NodePrepareResourceResponse{}}
	for _, c := range claims {
		switch h.IntN(8) {
		case 0: // it is missing
		case 1:
			out.Claims[h.Text()] = h.claim() // another than was asked for
		case 2:
			out.Claims[c.GetUid()] = nil // as an empty message
		case 3:
			out.Claims[c.GetUid()] = &api.NodePrepareResourceResponse{Error: h.Text()}
		default:
			out.Claims[c.GetUid()] = h.claim()
		}
	}
	if h.IntN(200) == 0 {
		for i := range 10_000 {
			out.Claims[fmt.Sprint(i)] = nil
		}
	}
	return out, nil
}

func (h Hostile) claim() *api.NodePrepareResourceResponse {
	out := &api.NodePrepareResourceResponse{}
	n := h.IntN(4)
	if h.IntN(100) == 0 {
		n = 2000
	}
	for range n {
		d := &api.Device{PoolName: h.Text(), DeviceName: h.Text(), CdiDeviceIds: []string{h.Text()}}
		if h.IntN(2) == 0 {
			share := h.Text()
			d.RequestNames, d.ShareId = []string{h.Text(), h.Text()}, &share
		}
		if h.IntN(20) == 0 {
			d = nil
		}
		out.Devices = append(out.Devices, d)
	}
	return out
}

// Devices is what a driver says of its devices.
func (h Hostile) Devices() (out []*health.DeviceHealth) {
	n := h.IntN(5)
	if h.IntN(200) == 0 {
		n = 20_000
	}
	for range n {
		d := &health.DeviceHealth{
			Device: &health.DeviceIdentifier{PoolName: "n", DeviceName: fmt.Sprint("d", h.IntN(1<<20))},
			Health: health.HealthStatus(h.IntN(5) - 1), //nolint:gosec // small

			HealthCheckTimeoutSeconds: int64(h.IntN(3)-1) << h.IntN(63),
		}
		switch h.IntN(8) {
		case 0:
			d.Device = nil
		case 1:
			d.Device.PoolName = h.Text()
		case 2:
			d.Message = h.Text()
		case 3:
			if n == 1 {
				d.Message = strings.Repeat("m", 1<<20)
			}
		}
		out = append(out, d)
	}
	return out
}
