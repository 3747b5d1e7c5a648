package podstatus

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestStarted(t *testing.T) {
	waiting := v1.ContainerStatus{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
	runs := v1.ContainerStatus{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
	ended := v1.ContainerStatus{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}
	backOff := waiting
	backOff.LastTerminationState = ended.State
	of := func(c ...v1.ContainerStatus) *v1.PodStatus { return &v1.PodStatus{ContainerStatuses: c} }
	for name, tt := range map[string]struct {
		before, after *v1.PodStatus
		want          bool
	}{
		"the only one":                         {of(waiting), of(runs), true},
		"the first of two":                     {of(waiting, waiting), of(runs, waiting), false},
		"the last of two":                      {of(runs, waiting), of(runs, runs), true},
		"the first crashes meanwhile":          {of(backOff, waiting), of(backOff, runs), true},
		"it ran for a moment":                  {of(waiting), of(ended), true},
		"a restart":                            {of(backOff), of(runs), false},
		"nothing new":                          {of(runs), of(runs), false},
		"what another agent started":           {nil, of(runs), false},
		"nobody knows":                         {of(runs), nil, false},
		"no container is known of":             {of(), of(), false},
		"the first of which anything is known": {of(), of(runs), true},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, Started(tt.before, tt.after), tt.want, "it")
		})
	}
}
