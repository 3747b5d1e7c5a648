package podstatus

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/smallmap"
)

// statusList builds a list of container statuses. While it equals prev, it is prev.
type statusList struct {
	prev, own []v1.ContainerStatus
	n         int
	differs   bool
	byName    smallmap.Lookup[string, v1.ContainerStatus]
}

func newStatusList(prev []v1.ContainerStatus) statusList {
	return statusList{prev: prev, byName: smallmap.LookupIn(prev, func(s *v1.ContainerStatus) string { return s.Name })}
}

// old is the status in prev of the container whose status comes n-th now; nil if there is none.
func (l *statusList) old(name string, n int) *v1.ContainerStatus {
	if i := l.byName.Place(name, n); i >= 0 {
		return &l.prev[i]
	}
	return nil
}

func (l *statusList) add(s *v1.ContainerStatus) {
	if !l.differs && l.n < len(l.prev) && equalStatus(&l.prev[l.n], s) {
		l.n++
		return
	}
	if !l.differs {
		l.own, l.differs = append(make([]v1.ContainerStatus, 0, max(len(l.prev), l.n+1)), l.prev[:l.n]...), true
	}
	l.own = append(l.own, *s)
}

func (l *statusList) list() []v1.ContainerStatus {
	if l.differs {
		return l.own
	}
	return l.prev[:l.n:l.n]
}

// ownConditions is how many conditions the node agent adds.
const ownConditions = 5

// conditionList is the same for conditions.
type conditionList struct {
	prev, own []v1.PodCondition
	n         int
	differs   bool
}

func (l *conditionList) add(c *v1.PodCondition) {
	if !l.differs && l.n < len(l.prev) && EqualCondition(&l.prev[l.n], c) {
		l.n++
		return
	}
	if !l.differs {
		l.own, l.differs = append(make([]v1.PodCondition, 0, max(len(l.prev), l.n+1, ownConditions)), l.prev[:l.n]...), true
	}
	l.own = append(l.own, *c)
}

func (l *conditionList) list() []v1.PodCondition {
	if l.differs {
		return l.own
	}
	return l.prev[:l.n:l.n]
}
