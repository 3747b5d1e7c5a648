package podstatus

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestEnded(t *testing.T) {
	end := func(id string, code int32, reason string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id, ExitCode: code, Reason: reason}}
	}
	first, second := end("c://1", 139, "Error"), end("c://2", 0, "Completed")
	waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	of := func(id string, state, last v1.ContainerState) *v1.PodStatus {
		s := v1.ContainerStatus{Name: "c", ContainerID: id, State: state, LastTerminationState: last}
		return &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "b"}, s}}
	}
	var none v1.ContainerState
	segfault, completed := Ending{podspec.Main, 139, "Error"}, Ending{podspec.Main, 0, "Completed"}
	nowhere := end("", 137, podspec.StatusUnknown)
	for name, tt := range map[string]struct {
		before, after *v1.PodStatus
		want          []Ending
	}{
		"it ends":                         {of("c://1", runs, none), of("c://1", first, none), []Ending{segfault}},
		"it has ended":                    {of("c://1", first, none), of("c://1", first, none), nil},
		"it ends, and waits":              {of("c://1", runs, none), of("c://1", waits, first), []Ending{segfault}},
		"it waits":                        {of("c://1", waits, first), of("c://1", waits, first), nil},
		"it runs again":                   {of("c://1", first, none), of("c://2", runs, first), nil},
		"it ended and runs again":         {of("c://1", runs, none), of("c://2", runs, first), []Ending{segfault}},
		"it ends again":                   {of("c://2", runs, first), of("c://2", second, first), []Ending{completed}},
		"it ends again, unseen":           {of("c://1", first, none), of("c://2", second, first), []Ending{completed}},
		"its pod ends while it waits":     {of("c://1", waits, first), of("c://1", first, none), nil},
		"how it ended was not known":      {of("c://1", end("c://1", 137, podspec.StatusUnknown), none), of("c://1", first, none), nil},
		"it was never made":               {of("", waits, none), of("", nowhere, none), []Ending{{podspec.Main, 137, podspec.StatusUnknown}}},
		"it was never made, as before":    {of("", nowhere, none), of("", nowhere, none), nil},
		"never shown, and has ended":      {&v1.PodStatus{}, of("c://1", first, none), []Ending{segfault}},
		"never shown, and ended long ago": {&v1.PodStatus{}, of("c://2", runs, first), nil},
		"nothing was said":                {nil, of("c://1", first, none), nil},
		"nothing is said":                 {of("c://1", runs, none), nil, nil},
	} {
		t.Run(name, func(t *testing.T) { check.Same(t, Ended(tt.before, tt.after), tt.want, "ended") })
	}
	all := of("c://1", first, none).ContainerStatuses
	kinds := &v1.PodStatus{InitContainerStatuses: all, EphemeralContainerStatuses: all}
	check.Same(t, Ended(&v1.PodStatus{}, kinds), []Ending{{podspec.Init, 139, "Error"}, {podspec.Ephemeral, 139, "Error"}}, "kinds")
}
