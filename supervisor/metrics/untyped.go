package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/troupe-dev/troupe/actors/rescue"
)

// untyped shows counters and gauges as values of no type. It is for names of a kubelet's
// that alerts go by and that a counter or gauge may not have: promtool check metrics asks
// for _total at the end of a counter, and for no _count at that of a gauge. Queries take no notice of a type.
type untyped struct{ prometheus.Collector }

// Collect implements prometheus.Collector.
func (u untyped) Collect(to chan<- prometheus.Metric) {
	counters := make(chan prometheus.Metric)
	rescue.Go(context.Background(), func() {
		defer close(counters)
		u.Collector.Collect(counters)
	}, rescue.Answered)
	for c := range counters {
		to <- untypedMetric{c}
	}
}

type untypedMetric struct{ prometheus.Metric }

// Write implements prometheus.Metric.
func (m untypedMetric) Write(out *dto.Metric) error {
	if err := m.Metric.Write(out); err != nil {
		return err
	}
	if out.Gauge != nil {
		out.Untyped, out.Gauge = &dto.Untyped{Value: out.Gauge.Value}, nil
		return nil
	}
	out.Untyped, out.Counter = &dto.Untyped{Value: out.Counter.Value}, nil
	return nil
}
