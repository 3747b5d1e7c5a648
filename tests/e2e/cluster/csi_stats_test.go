package cluster

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// volumeStats are those of a pod in /stats/summary, by the names of its volumes.
func volumeStats(t *testing.T, base, pod string) map[string]stats.VolumeStats {
	t.Helper()
	var s stats.Summary
	check.Fatal(t, json.Unmarshal(fetch(t, http.DefaultClient, base+"/stats/summary", ""), &s))
	out := map[string]stats.VolumeStats{}
	for i := range s.Pods {
		if s.Pods[i].PodRef.Name == pod {
			for _, v := range s.Pods[i].VolumeStats {
				out[v.Name] = v
			}
		}
	}
	return out
}

// TestCSIStats: how full volumes are, and how healthy, is what their driver says, of file systems, devices and inline
// volumes. A driver that says what can't be true, fails or hangs is believed in nothing, and holds up nobody.
//
//tier:all a second look at the driver's volumes
func TestCSIStats(t *testing.T) {
	t.Parallel()
	port := check.Value(lab.FreePort())(t)
	const method = "NodeGetVolumeStats"
	b := newCSIBed(t, "csi-stats", csiAgent(t), nil,
		fmt.Sprintf("readOnlyPort: %d\nvolumeStatsAggPeriod: 1s\nfeatureGates: {CSIVolumeHealth: true}", port))
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	b.wants(t, "fs", "image", "32Mi")
	b.wants(t, "block", "dir", "16Mi", block)
	b.runs(t, "pod", using("fs"), work("sleep"), func(s *v1.PodSpec) {
		s.Volumes = append(s.Volumes, volume("b", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "block"}}),
			volume("i", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: b.driver.Name}}))
		s.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "b", DevicePath: "/dev/vol"}}
		s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, v1.VolumeMount{Name: "i", MountPath: "/i"})
	})
	// await waits until the three have statistics of which this holds.
	await := func(what string, holds func(map[string]stats.VolumeStats) error) {
		t.Helper()
		b.await(t, what, func() error { return holds(volumeStats(t, base, "pod")) })
	}
	await("all have figures", func(all map[string]stats.VolumeStats) error {
		fs, device, inline := all["v"], all["b"], all["i"]
		switch {
		case fs.CapacityBytes == nil || *fs.CapacityBytes < 20<<20 || *fs.CapacityBytes > 32<<20 || fs.UsedBytes == nil || *fs.Inodes == 0:
			return fmt.Errorf("the file system has %+v", fs)
		case fs.PVCRef == nil || fs.PVCRef.Name != "fs" || fs.PVCRef.Namespace != b.name:
			return fmt.Errorf("the file system is of %+v", fs.PVCRef)
		case device.CapacityBytes == nil || *device.CapacityBytes != 16<<20 || device.PVCRef == nil || *device.Inodes != 0:
			return fmt.Errorf("the device has %+v", device)
		case inline.CapacityBytes == nil || *inline.CapacityBytes == 0 || inline.PVCRef != nil:
			return fmt.Errorf("the inline volume has %+v", inline)
		case fs.VolumeHealthStats == nil || fs.VolumeHealthStats.Abnormal:
			return fmt.Errorf("the file system's health is %+v", fs.VolumeHealthStats)
		}
		return nil
	})
	// shows waits until the metric of the file system has a value; negative: until there is none.
	shows := func(name string, want float64) {
		t.Helper()
		b.await(t, fmt.Sprintf("%s is %v", name, want), func() error {
			found := labelled(parsed(t, fetch(t, http.DefaultClient, base+"/metrics", "")), name, "namespace="+b.name, "persistentvolumeclaim=fs")
			switch {
			case len(found) == 0 && want < 0 || len(found) == 1 && found[0].Gauge.GetValue() == want:
				return nil
			case len(found) == 1:
				return fmt.Errorf("it is %v", found[0].Gauge.GetValue())
			default:
				return fmt.Errorf("there are %d", len(found))
			}
		})
	}
	const abnormal = "kubelet_volume_stats_health_status_abnormal"
	shows(abnormal, 0)
	check.Fatal(t, b.driver.SetAbnormal(t.Context(), b.handle(t, "fs"), "it has bad sectors"))
	shows(abnormal, 1)
	b.awaitEvent(t, "pod", "VolumeConditionAbnormal", "Volume v: it has bad sectors")
	check.Fatal(t, b.driver.SetAbnormal(t.Context(), b.handle(t, "fs"), ""))
	shows(abnormal, 0)

	set := func(f csidriver.Fault) {
		t.Helper()
		f.Method = method
		check.Fatal(t, b.driver.Set(t.Context(), f))
	}
	set(csidriver.Fault{Bytes: math.MaxInt64})
	shows("kubelet_volume_stats_used_bytes", math.MaxInt64)
	if agentOfCSI() != "kubelet" { // which shows that as a huge number
		set(csidriver.Fault{Bytes: -4096})
		shows("kubelet_volume_stats_used_bytes", -1)
	}
	set(csidriver.Fault{Code: codes.Internal, Message: "no figures"})
	await("a driver that fails says nothing", func(all map[string]stats.VolumeStats) error {
		return check.That(len(all) == 0 || all["v"].CapacityBytes == nil, "there are figures of %d volumes", len(all))
	})
	check.Fatal(t, b.driver.End(t.Context(), method))
	await("it says again", func(all map[string]stats.VolumeStats) error {
		return check.That(all["v"].CapacityBytes != nil, "nothing")
	})
	set(csidriver.Fault{Hang: true})
	b.await(t, "it hangs", func() error {
		n := b.driver.Hanging(t.Context(), method)
		return check.That(n >= 1, "%d calls do", n)
	})
	b.wants(t, "other", "image", "16Mi")
	b.runs(t, "other", using("other"), work("sleep"))
	b.ends(t, "other")
	b.ends(t, "pod")
	check.Fatal(t, b.driver.End(t.Context(), method))
}
