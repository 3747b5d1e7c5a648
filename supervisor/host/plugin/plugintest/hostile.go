package plugintest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Hostile makes answers that no plugin should give, and some that one may. The same seed gives the same.
type Hostile struct {
	mu sync.Mutex
	r  *rand.Rand
}

// NewHostile begins with a seed.
func NewHostile(seed uint64) *Hostile { return &Hostile{r: rand.New(rand.NewPCG(seed, seed))} } //nolint:gosec // a test

// IntN is a number below n.
func (h *Hostile) IntN(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.r.IntN(n)
}

// bad marks where Spoil puts bytes that are no UTF-8: it has as many.
const bad = "¿"

// Text is any text, most often a short one.
func (h *Hostile) Text() string {
	texts := [...]string{
		"", "a", "x", "/dev/null", "../../etc/shadow", "relative/path", "a=b", "=", "\x00", "a\x00b", " ", "\n", "{}", "%s%n",
		"é", bad, "x" + bad, "vendor.com/class=name", "no CDI name", "vendor.com/class=", "/", "..",
		strings.Repeat("a", 300), "-1", "\u202e", "Healthy", "Unhealthy",
	}
	switch h.IntN(100) {
	case 0:
		return strings.Repeat("long", 1<<h.IntN(18))
	case 1:
		return strings.Repeat(bad, 1<<h.IntN(12))
	}
	return texts[h.IntN(len(texts))]
}

// Error has any code but OK, and any text.
func (h *Hostile) Error() error {
	return status.Error(codes.Code(1+h.IntN(20)), h.Text()) //nolint:gosec // small
}

// Spoil makes invalid UTF-8 of some texts. One message in 20 has random bits changed.
func (h *Hostile) Spoil(message []byte) []byte {
	message = bytes.ReplaceAll(message, []byte(bad), []byte{0xff, 0xfe})
	if h.IntN(20) == 0 && len(message) > 0 {
		for range 1 + h.IntN(4) {
			message[h.IntN(len(message))] ^= 1 << h.IntN(8)
		}
	}
	return message
}

// Devices is a list, in which few devices are odd.
func (h *Hostile) Devices() []*api.Device {
	n := [...]int{0, 1, 3, 10, 10, 100}[h.IntN(6)]
	if h.IntN(500) == 0 {
		n = []int{99_999, 100_000, 100_001}[h.IntN(3)]
	}
	odd := h.IntN(3) == 0
	out := make([]*api.Device, 0, n)
	for i := range n {
		d := &api.Device{ID: fmt.Sprint("d", i), Health: api.Healthy}
		out = append(out, d)
		if !odd || h.IntN(n) > 3 {
			continue
		}
		switch h.IntN(6) {
		case 0:
			d.ID = h.Text()
		case 1:
			d.ID = fmt.Sprint("d", h.IntN(n)) // of another one
		case 2:
			d.ID = strings.Repeat("m", 1<<(8+h.IntN(13))) // up to 1 MiB
		case 3:
			d.Health = h.Text()
		default:
			d.Topology = &api.TopologyInfo{}
			for range h.IntN(100) {
				d.Topology.Nodes = append(d.Topology.Nodes, &api.NUMANode{ID: int64(h.IntN(130)-65) << h.IntN(60)})
			}
		}
	}
	return out
}

// Allocate is an answer to Allocate.
func (h *Hostile) Allocate([]string) (*api.AllocateResponse, error) {
	if h.IntN(8) == 0 {
		return nil, h.Error()
	}
	out := &api.AllocateResponse{}
	for range [...]int{0, 1, 1, 1, 1, 1, 2}[h.IntN(7)] {
		out.ContainerResponses = append(out.ContainerResponses, h.container())
	}
	return out, nil
}

func (h *Hostile) container() *api.ContainerAllocateResponse {
	c := &api.ContainerAllocateResponse{}
	many := func() int {
		if h.IntN(500) == 0 {
			return 10_000
		}
		return h.IntN(3)
	}
	for range many() {
		c.Mounts = append(c.Mounts, &api.Mount{ContainerPath: h.Text(), HostPath: h.Text()})
	}
	for range many() {
		c.Devices = append(c.Devices, &api.DeviceSpec{ContainerPath: h.Text(), HostPath: h.Text(), Permissions: h.Text()})
	}
	for range many() {
		c.CdiDevices = append(c.CdiDevices, &api.CDIDevice{Name: h.Text()})
	}
	if h.IntN(2) == 0 {
		c.Envs, c.Annotations = map[string]string{h.Text(): h.Text()}, map[string]string{h.Text(): h.Text()}
	}
	if h.IntN(20) == 0 { // as empty messages
		c.Mounts, c.Devices, c.CdiDevices = []*api.Mount{nil}, []*api.DeviceSpec{nil}, []*api.CDIDevice{nil}
	}
	return c
}

// Prefer is an answer to GetPreferredAllocation.
func (h *Hostile) Prefer(q *api.ContainerPreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	if h.IntN(8) == 0 {
		return nil, h.Error()
	}
	var ids []string
	switch all := q.GetAvailableDeviceIDs(); h.IntN(7) {
	case 0: // none
	case 1: // too many
		ids = all
	case 2: // too few
		ids = all[:min(len(all), int(q.GetAllocationSize())/2)]
	case 3: // one, often
		ids = slices.Repeat(all[:min(len(all), 1)], 1+h.IntN(10_000))
	case 4: // without those that it must have
		must := func(id string) bool { return slices.Contains(q.MustIncludeDeviceIDs, id) }
		ids = slices.DeleteFunc(slices.Clone(all), must)
	case 5: // others
		ids = []string{h.Text(), h.Text()}
	default:
		ids = all[len(all)-min(len(all), int(q.GetAllocationSize())):]
	}
	out := &api.PreferredAllocationResponse{}
	for range [...]int{0, 1, 1, 1, 1, 1, 2}[h.IntN(7)] {
		out.ContainerResponses = append(out.ContainerResponses, &api.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return out, nil
}
