package shortage

import (
	"fmt"
	"syscall"

	v1 "k8s.io/api/core/v1"
)

// FillRate is how fast pods write that fill something, in MiB per second.
const FillRate = 20

// A node's small disk, in MiB, and how much of it is left when pods are evicted, in percent.
const (
	DiskSize  = 200
	DiskShare = 20
)

// DiskLevel is how much of the small disk is in use when pods are to be evicted, in bytes.
const DiskLevel = (100 - DiskShare) * DiskSize / 100 * MiB

// Fill are the arguments of the work image that fill the volume of [InVolume].
var Fill = fmt.Sprintf("fill /v/f %d", FillRate)

// DiskSettings are the lines of KubeletConfiguration for a node whose root directory is a small disk.
func DiskSettings() string {
	return fmt.Sprintf("evictionHard: {nodefs.available: %d%%}\nevictionPressureTransitionPeriod: 5s\n", DiskShare)
}

// SmallDisk puts a file system of [DiskSize] over a directory. Unmounting it is the caller's.
func SmallDisk(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", DiskSize)); err != nil {
		return fmt.Errorf("mount a small disk at %s: %w", dir, err)
	}
	return nil
}

// DiskUsed is what is in use of the file system of a directory, in bytes.
func DiskUsed(dir string) (int64, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(dir, &s)
	return int64(s.Blocks-s.Bavail) * s.Bsize, err
}

// InVolume gives the first container a volume in memory, or on disk, at /v.
func InVolume(v v1.EmptyDirVolumeSource) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v}}}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
}
