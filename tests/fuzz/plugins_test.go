package fuzz

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/growth"
)

// FuzzPlugins: whatever a device plugin and a CSI driver answer, no actor crashes for it, and a plain pod beside the one
// that uses them runs.
func FuzzPlugins(f *testing.F) {
	for i := range byte(6) {
		f.Add([]byte{i})
	}
	const gpu, driver = "example.com/gpu", "csi.test"
	f.Fuzz(func(t *testing.T, data []byte) {
		s, honest := New(data), false
		lies := func() bool { return !honest && s.IntN(3) == 0 }
		w := node(t, func(n *sim.NodeSpec) {
			n.Devices = map[v1.ResourceName]machine.DevicePlugin{gpu: {Devices: []devices.Device{{ID: "d0", Healthy: true}, {ID: "d1", Healthy: true}}}}
			n.CSI = map[string]machine.CSIDriver{driver: {}}
			n.Configure = func(c *agent.Config) {
				c.Ports.DevicePlugins = &lyingPlugins{c.Ports.DevicePlugins, s, lies}
				c.Ports.CSI = &lyingDrivers{c.Ports.CSI, s, lies}
			}
		})
		w.honest = func() { honest = true }
		p := growth.Base("odd")
		if s.IntN(2) == 0 {
			c := &p.Spec.Containers[0]
			c.Resources.Limits = v1.ResourceList{gpu: resource.MustParse("1")}
			c.Resources.Requests = c.Resources.Limits
		}
		if s.IntN(2) == 0 {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driver}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		}
		w.live(t, s, p, nil)
	})
}

// lyingPlugins are device plugins that say what they like.
type lyingPlugins struct {
	port.DevicePlugins
	s    *Source
	lies func() bool
}

// Devices implements port.DevicePlugins.
func (l *lyingPlugins) Devices(ctx context.Context, p port.DevicePlugin, event func([]devices.Device), done func(error)) {
	l.DevicePlugins.Devices(ctx, p, func(all []devices.Device) {
		if l.lies() {
			var made []devices.Device
			l.s.Fill(&made)
			// The adapter sorts them, and passes on no duplicates, and no nodes that there can't be.
			for i := range made {
				made[i].ID = "d" + string(rune('0'+i))
				made[i].Nodes = slices.DeleteFunc(made[i].Nodes, func(n int64) bool { return n < 0 || n > 63 })
				slices.Sort(made[i].Nodes)
				made[i].Nodes = slices.Compact(made[i].Nodes)
			}
			all = made
		}
		event(all)
	}, done)
}

// Prefer implements port.DevicePlugins.
func (l *lyingPlugins) Prefer(ctx context.Context, p port.DevicePlugin, q devices.Question, done func([]string, error)) {
	l.DevicePlugins.Prefer(ctx, p, q, func(ids []string, err error) {
		if l.lies() {
			l.s.Fill(&ids)
		}
		done(ids, err)
	})
}

// Allocate implements port.DevicePlugins.
func (l *lyingPlugins) Allocate(ctx context.Context, p port.DevicePlugin, ids []string, done func([]byte, error)) {
	l.DevicePlugins.Allocate(ctx, p, ids, func(answer []byte, err error) {
		if l.lies() {
			var made api.ContainerAllocateResponse
			l.s.Fill(&made)
			if text, failed := proto.Marshal(&made); failed == nil { // else it has a text that is no UTF-8
				answer = text
			}
		}
		done(answer, err)
	})
}

// lyingDrivers are CSI drivers that say what they like.
type lyingDrivers struct {
	port.CSI
	s    *Source
	lies func() bool
}

// NodeInfo implements port.CSI.
func (l *lyingDrivers) NodeInfo(ctx context.Context, d port.CSIDriver, done func(csi.Info, error)) {
	l.CSI.NodeInfo(ctx, d, func(is csi.Info, err error) {
		if l.lies() {
			l.s.Fill(&is)
		}
		done(is, err)
	})
}

// VolumeStats implements port.CSI.
func (l *lyingDrivers) VolumeStats(ctx context.Context, d port.CSIDriver, r csi.Measure, done func(csi.Usage, error)) {
	l.CSI.VolumeStats(ctx, d, r, func(is csi.Usage, err error) {
		if l.lies() {
			l.s.Fill(&is)
		}
		done(is, err)
	})
}

// PublishVolume implements port.CSI. The kinds of errors are those that an adapter makes of answers.
func (l *lyingDrivers) PublishVolume(
	ctx context.Context, d port.CSIDriver, r csi.Publish, walked port.Walked, done func(string, error),
) {
	l.CSI.PublishVolume(ctx, d, r, walked, func(path string, err error) {
		if l.lies() {
			err = &port.Error{Verb: "NodePublishVolume", Object: d.Name, Kind: one(l.s, kinds), Detail: one(l.s, texts)}
		}
		done(path, err)
	})
}

var kinds = []port.ErrorKind{port.Other, port.NotFound, port.Unavailable, port.Deadline, port.Unsupported, port.InvalidConfig, port.Panic}
