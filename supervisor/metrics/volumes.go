package metrics

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

var (
	volumeLabels    = []string{"namespace", "persistentvolumeclaim"}
	volumeCapacity  = described("kubelet_volume_stats_capacity_bytes", "Capacity in bytes of the volume", volumeLabels...)
	volumeAvailable = described("kubelet_volume_stats_available_bytes",
		"Number of available bytes in the volume", volumeLabels...)
	volumeUsed     = described("kubelet_volume_stats_used_bytes", "Number of used bytes in the volume", volumeLabels...)
	volumeInodes   = described("kubelet_volume_stats_inodes", "Maximum number of inodes in the volume", volumeLabels...)
	volumeFree     = described("kubelet_volume_stats_inodes_free", "Number of free inodes in the volume", volumeLabels...)
	volumeTaken    = described("kubelet_volume_stats_inodes_used", "Number of used inodes in the volume", volumeLabels...)
	volumeAbnormal = described("kubelet_volume_stats_health_status_abnormal",
		"1 if the driver of the volume says that it is unhealthy, 0 if it says that it is healthy", volumeLabels...)

	logsUsed = described("kubelet_container_log_filesystem_used_bytes",
		"Bytes used by the container's logs on the filesystem.", "uid", "namespace", "pod", "container")

	volumesTotal = described("volume_manager_total_volumes",
		"Number of volumes by plugin and state: desired (desired_state_of_world) or mounted (actual_state_of_world).",
		"plugin_name", "state")
)

// volumesCollector is of the volumes of pods, and of the logs of their containers. Of a volume that several pods use
// there is one line.
type volumesCollector struct {
	// of are the pods, pods what their volumes of claims and their logs use, in the same order.
	of   []*v1.Pod
	pods []usage.Pod
}

// Describe implements prometheus.Collector.
func (volumesCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c volumesCollector) Collect(to chan<- prometheus.Metric) {
	for key, n := range volumeCounts(c.of, c.pods) { // order-free: sorted as they are written
		to <- prometheus.MustNewConstMetric(volumesTotal, prometheus.GaugeValue, float64(n), key[0], key[1])
	}
	seen := map[[2]string]bool{}
	for i := range c.pods {
		p := &c.pods[i]
		for j := range p.Containers {
			if logs := p.Containers[j].Logs; logs != nil && logs.Used != nil {
				to <- prometheus.MustNewConstMetric(logsUsed, prometheus.GaugeValue, float64(*logs.Used), string(p.UID),
					p.Namespace, p.Name, p.Containers[j].Name)
			}
		}
		for _, v := range p.Volumes {
			key := [2]string{v.Namespace, v.Claim}
			if v.Claim == "" || seen[key] {
				continue
			}
			seen[key] = true
			if v.Abnormal != nil {
				value := 0.0
				if *v.Abnormal {
					value = 1
				}
				to <- prometheus.MustNewConstMetric(volumeAbnormal, prometheus.GaugeValue, value, key[0], key[1])
			}
			for _, g := range []struct {
				desc  *prometheus.Desc
				value *uint64
			}{
				{volumeCapacity, v.Disk.Capacity}, {volumeAvailable, v.Disk.Available}, {volumeUsed, v.Disk.Used},
				{volumeInodes, v.Disk.Inodes}, {volumeFree, v.Disk.InodesFree}, {volumeTaken, v.Disk.InodesUsed},
			} {
				if g.value != nil {
					to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(*g.value), key[0], key[1])
				}
			}
		}
	}
}

// volumeCounts counts volumes by plugin and state. A container waits for all volumes that its pod uses, so a
// pod that has one has them all. used, in the order of pods, tells the plugins of claims that are mounted.
func volumeCounts(pods []*v1.Pod, used []usage.Pod) map[[2]string]int {
	out := map[[2]string]int{}
	for i, p := range pods {
		if podspec.Finished(p) {
			continue
		}
		up := false
		for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for j := range list {
				up = up || list[j].ContainerID != ""
			}
		}
		var measured smallmap.Lookup[string, usage.Volume]
		if i < len(used) {
			measured = smallmap.LookupIn(used[i].Volumes, func(v *usage.Volume) string { return v.Name })
		}
		for v := range podspec.Volumes(&p.Spec) {
			plugin := pluginOf(v)
			if plugin == "" {
				if mounted := measured.Get(v.Name); mounted != nil {
					plugin = mounted.Plugin
				}
			}
			plugin = cmp.Or(plugin, "unknown")
			out[[2]string{plugin, "desired_state_of_world"}]++
			if up {
				out[[2]string{plugin, "actual_state_of_world"}]++
			}
		}
	}
	return out
}

// pluginOf is a kubelet's name of the plugin of a volume, empty for a claim: what that is, its PersistentVolume says.
func pluginOf(v *v1.Volume) string {
	switch s := &v.VolumeSource; {
	case s.EmptyDir != nil:
		return "kubernetes.io/empty-dir"
	case s.HostPath != nil:
		return "kubernetes.io/host-path"
	case s.ConfigMap != nil:
		return "kubernetes.io/configmap"
	case s.Secret != nil:
		return "kubernetes.io/secret"
	case s.DownwardAPI != nil:
		return "kubernetes.io/downward-api"
	case s.Projected != nil:
		return "kubernetes.io/projected"
	case s.Image != nil:
		return "kubernetes.io/image"
	case s.NFS != nil:
		return "kubernetes.io/nfs"
	case s.ISCSI != nil:
		return "kubernetes.io/iscsi"
	case s.FC != nil:
		return "kubernetes.io/fc"
	case s.CSI != nil:
		return usage.CSIPlugin(s.CSI.Driver)
	default:
		return ""
	}
}

// pluginOfPersistent is pluginOf for a PersistentVolume.
func pluginOfPersistent(s *v1.PersistentVolumeSource) string {
	if s.Local != nil {
		return "kubernetes.io/local-volume"
	}
	as := v1.Volume{VolumeSource: v1.VolumeSource{HostPath: s.HostPath, NFS: s.NFS, FC: s.FC}}
	if s.ISCSI != nil {
		as.ISCSI = &v1.ISCSIVolumeSource{}
	}
	return pluginOf(&as)
}
