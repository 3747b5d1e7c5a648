package admit

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// pressure keeps out pods that the node does not need while one of its resources runs short.
func pressure(r *Request) *Rejection {
	p := &r.Node.Pressure
	var short []string
	for _, c := range [...]struct {
		is   bool
		name v1.NodeConditionType
	}{{p.Memory, v1.NodeMemoryPressure}, {p.Disk, v1.NodeDiskPressure}, {p.PID, v1.NodePIDPressure}} {
		if c.is {
			short = append(short, string(c.name))
		}
	}
	if len(short) == 0 || podspec.Critical(r.Pod) {
		return nil
	}
	taint := v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}
	if p.Memory && len(short) == 1 && (podspec.Class(r.Pod) != v1.PodQOSBestEffort || tolerated(r.Pod, &taint)) {
		return nil
	}
	return reject("Evicted", "The node had condition: [%s]. ", strings.Join(short, " "))
}
