package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/pods"
)

// counted are the metrics of what becomes of pods, under the kubelet's names.
type counted struct {
	ended *prometheus.CounterVec
}

func (m *Metrics) newCounted() *counted {
	return &counted{
		ended: m.counters("kubelet_terminated_containers_total", "Cumulative number of container terminations.",
			"container_type", "exit_code", "reason"),
	}
}

// Counted counts what becomes of pods: it is what a node.Config tells.
func (m *Metrics) Counted() pods.Counts { return m.counted }

// Ended implements pods.Counts.
func (c *counted) Ended(e podstatus.Ending) {
	c.ended.WithLabelValues(typeOf(e.Kind), strconv.Itoa(int(e.Code)), e.Reason).Inc()
}
