package podstatus_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/tests/check"
)

// mountsInput is a container with a mount of each mode, whose runtime can make all
// below a mount read-only, and did so.
func mountsInput() podstatus.Input {
	in := baseInput()
	mode := func(m v1.RecursiveReadOnlyMode) *v1.RecursiveReadOnlyMode { return &m }
	in.Plan.Pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
		{Name: "w", MountPath: "/writable"},
		{Name: "n", MountPath: "/none", ReadOnly: true},
		{Name: "d", MountPath: "/disabled", ReadOnly: true, RecursiveReadOnly: mode(v1.RecursiveReadOnlyDisabled)},
		{Name: "p", MountPath: "possible/", ReadOnly: true, RecursiveReadOnly: mode(v1.RecursiveReadOnlyIfPossible)},
		{Name: "e", MountPath: "/enabled", ReadOnly: true, RecursiveReadOnly: mode(v1.RecursiveReadOnlyEnabled)},
	}
	only(&in).RecursiveReadOnly = []string{"/possible", "/enabled"}
	return in
}

func only(in *podstatus.Input) *observed.Container { return &in.Plan.View.Containers[0] }

func TestRecursiveReadOnlyMounts(t *testing.T) {
	const could, couldNot = "w:- n:Disabled d:Disabled p:Enabled e:Enabled", "w:- n:Disabled d:Disabled p:Disabled e:Enabled"
	shown := func(modes string) func(*podstatus.Input) {
		return func(in *podstatus.Input) {
			before := mountsInput()
			if modes == couldNot {
				only(&before).RecursiveReadOnly = nil
			}
			s := podstatus.Compute(before)
			in.Previous = &s
		}
	}
	cannot := func(in *podstatus.Input) { only(in).RecursiveReadOnly = nil }
	notRead := func(in *podstatus.Input) { only(in).Detailed, only(in).RecursiveReadOnly = false, nil }
	made := func(in *podstatus.Input) {
		c := running("a", 1)
		c.State, c.StartedAt = observed.ContainerCreated, c.FinishedAt
		in.Plan.View.Containers = append([]observed.Container{c}, exited("a", 0, 1))
	}
	ended := func(in *podstatus.Input) {
		c := exited("a", 0, 1)
		c.RecursiveReadOnly = only(in).RecursiveReadOnly
		*only(in) = c
	}
	none := func(in *podstatus.Input) { in.Plan.View.Containers = nil }
	for _, c := range []struct {
		name string
		with []func(*podstatus.Input)
		want string
	}{
		{"the runtime can", nil, could},
		{"the runtime can't", []func(*podstatus.Input){cannot}, couldNot},
		{"ended", []func(*podstatus.Input){ended}, could},
		{"shown otherwise by an earlier agent", []func(*podstatus.Input){shown(couldNot)}, could},
		{"shown otherwise, and made anew by a runtime that can't", []func(*podstatus.Input){shown(could), cannot}, couldNot},
		{"not made yet", []func(*podstatus.Input){none}, "w:- n:Disabled d:Disabled p:Disabled e:Disabled"},
		{"not looked at yet", []func(*podstatus.Input){notRead}, couldNot},
		{"not looked at yet by this agent", []func(*podstatus.Input){shown(could), notRead}, could},
		{"the next one is made", []func(*podstatus.Input){shown(could), made}, could},
		{"gone from the runtime", []func(*podstatus.Input){shown(could), none}, could},
	} {
		in := mountsInput()
		for _, f := range c.with {
			f(&in)
		}
		status := podstatus.Compute(in)
		var got []string
		for _, m := range status.ContainerStatuses[0].VolumeMounts {
			mode := "-"
			if m.RecursiveReadOnly != nil {
				mode = string(*m.RecursiveReadOnly)
			}
			got = append(got, fmt.Sprint(m.Name, ":", mode))
		}
		check.Equal(t, strings.Join(got, " "), c.want, "%s:\n got", c.name)
		in.Previous = &status
		if again := podstatus.Compute(in); &again.ContainerStatuses[0].VolumeMounts[0] != &status.ContainerStatuses[0].VolumeMounts[0] {
			t.Errorf("%s: computed again, the list of mounts is another", c.name)
		}
	}
}
