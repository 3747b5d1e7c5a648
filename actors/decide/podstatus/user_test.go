package podstatus_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestUserOfContainer: what is shown of the user of a container's first process.
func TestUserOfContainer(t *testing.T) {
	root := &v1.LinuxContainerUser{SupplementalGroups: []int64{0}}
	last := &v1.LinuxContainerUser{UID: 1<<31 - 1, GID: 1<<31 - 1, SupplementalGroups: []int64{1<<31 - 1}}
	other := &v1.LinuxContainerUser{UID: 1000, SupplementalGroups: []int64{0, 3000}}
	for _, c := range []struct {
		name string
		was  *v1.LinuxContainerUser // shown before; nil for nothing
		old  string                 // the container that was shown before
		is   *v1.LinuxContainerUser // as the runtime says now
		want *v1.LinuxContainerUser
	}{
		{"the runtime does not say", nil, "a0", nil, nil},
		{"the runtime says", nil, "a0", other, other},
		{"not read again yet", other, "a0", nil, other},
		{"read again", root, "a0", other, other},
		{"another incarnation, not read yet", other, "a9", nil, nil},
		{"the last user that the API has", nil, "a0", last, last},
		{"a user beyond it", nil, "a0", &v1.LinuxContainerUser{UID: 1 << 31}, nil},
		{"a group beyond it", nil, "a0", &v1.LinuxContainerUser{GID: 1 << 31}, nil},
		{"another group beyond it", nil, "a0", &v1.LinuxContainerUser{SupplementalGroups: []int64{0, 1 << 31}}, nil},
	} {
		in := baseInput()
		in.Plan.View.Containers[0].User = c.is
		first := podstatus.Compute(in)
		first.ContainerStatuses[0].ContainerID = "containerd://" + c.old
		first.ContainerStatuses[0].User = nil
		if c.was != nil {
			first.ContainerStatuses[0].User = &v1.ContainerUser{Linux: c.was}
		}
		in.Previous = &first
		status := podstatus.Compute(in)
		var got *v1.LinuxContainerUser
		if u := status.ContainerStatuses[0].User; u != nil {
			got = u.Linux
		}
		check.Deep(t, got, c.want, "%s", c.name)
	}
}
