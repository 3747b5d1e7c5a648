package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// storage mounts and unmounts nothing.
type storage struct {
	port.Host
	port.CSI
	err error
}

func (s *storage) MountVolume(_ context.Context, _ port.MountVolume, done func(string, error)) {
	done("/there", s.err)
}

func (s *storage) UnmountPod(_ context.Context, _ types.UID, done func(error)) { done(s.err) }

func (s *storage) StageVolume(_ context.Context, _ port.CSIDriver, _ csi.Stage, done func(error)) {
	done(s.err)
}

func (s *storage) PublishVolume(
	_ context.Context, _ port.CSIDriver, _ csi.Publish, _ port.Walked, done func(string, error),
) {
	done("/there", s.err)
}

func (s *storage) UnpublishVolume(_ context.Context, _ port.CSIDriver, _ csi.Found, done func(error)) {
	done(s.err)
}

func (s *storage) UnstageVolume(_ context.Context, _ port.CSIDriver, _ csi.Found, done func(error)) {
	done(s.err)
}

// TestMounts: mounts that fail are told apart, and plugins. A volume that a driver stages and publishes is mounted once.
func TestMounts(t *testing.T) {
	m, below := fresh(t), &storage{}
	host, drivers, driver := m.Mounts(below), m.CSIMounts(below), port.CSIDriver{Name: "d"}
	ctx := t.Context()
	secret := &v1.Volume{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}}
	claim := &v1.Volume{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}
	local := &v1.PersistentVolume{}
	local.Spec.Local = &v1.LocalVolumeSource{}
	for _, err := range []error{nil, errors.New("no")} {
		below.err = err
		told := func(got error) { check.Equal(t, got, err, "the error") }
		mounted := func(path string, got error) { told(got); check.Equal(t, path, "/there", "the path") }
		host.MountVolume(ctx, port.MountVolume{Volume: secret}, mounted)
		host.MountVolume(ctx, port.MountVolume{Volume: claim, Persistent: local}, mounted)
		host.MountVolume(ctx, port.MountVolume{Volume: &v1.Volume{}}, mounted)
		host.UnmountPod(ctx, "1", told)
		for _, block := range []bool{false, true} {
			drivers.StageVolume(ctx, driver, csi.Stage{Block: block}, told)
			drivers.PublishVolume(ctx, driver, csi.Publish{Block: block}, nil, mounted)
			drivers.UnpublishVolume(ctx, driver, csi.Found{Block: block}, told)
			drivers.UnstageVolume(ctx, driver, csi.Found{Block: block}, told)
		}
	}
	var all []want
	for _, of := range []struct {
		plugin, operation string
		failures          float64
	}{
		{"kubernetes.io/secret", "volume_mount", 1}, {"kubernetes.io/local-volume", "volume_mount", 1},
		{"UnknownVolumePlugin", "volume_mount", 1}, {"<n/a>", "volume_unmount", 1},
		{"kubernetes.io/csi:d", "volume_mount", 2}, {"kubernetes.io/csi:d", "map_volume", 2},
		{"kubernetes.io/csi:d", "volume_unmount", 1}, {"kubernetes.io/csi:d", "unmap_volume", 1},
		{"kubernetes.io/csi:d", "unmount_device", 1}, {"kubernetes.io/csi:d", "unmap_device", 1},
	} {
		labels := "migrated=false operation_name=" + of.operation + " status=%s volume_plugin=" + of.plugin
		const name = "storage_operation_duration_seconds"
		all = append(all, want{name, fmt.Sprintf(labels, "success"), 1}, want{name, fmt.Sprintf(labels, "fail-unknown"), of.failures})
	}
	wantSeries(t, scrape(t, m, asked(), "/metrics"), all)
}
