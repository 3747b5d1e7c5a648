package pods_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// counts writes down what metrics are told.
type counts struct{ r *rig }

// Ended implements pods.Counts.
func (c counts) Ended(e podstatus.Ending) {
	c.r.Say("metrics: a %v container ended with %d, %s", e.Kind, e.Code, e.Reason)
}

func counting(r *rig) { r.counts = counts{r} }

// TestEndsAreCounted: once each, and none that the apiserver knew before this agent began.
func TestEndsAreCounted(t *testing.T) {
	r := newRig(t, 0, counting)
	ended := func(code int32) []v1.ContainerStatus {
		end := v1.ContainerStateTerminated{ContainerID: "c://1", ExitCode: code, Reason: "Error"}
		return []v1.ContainerStatus{{Name: "c", ContainerID: "c://1", State: v1.ContainerState{Terminated: &end}}}
	}
	p := made("a")
	p.Status.ContainerStatuses = ended(1)
	r.tells(node, r.listed(""), has(podspec.File, "b"), wants(podspec.API, p))
	r.Forget()
	says := reports("a", v1.PodRunning, 0)
	says.Status.ContainerStatuses = ended(1)
	r.tells(says, says)
	r.want("known before", []string{"metrics:"})
	says = reports("b", v1.PodRunning, 0)
	says.Status.ContainerStatuses = ended(139)
	r.tells(reports("b", v1.PodPending, 0), says, says)
	r.want("it ends", []string{"metrics:"}, "metrics: b started", "metrics: a main container ended with 139, Error")
}
