package metrics

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/actors/rescue"
)

// contained is a collector of ours. A panic of it is an error of the scrape: on the goroutines of the registry, it
// would end the process.
type contained struct{ prometheus.Collector }

// Collect implements prometheus.Collector.
func (c contained) Collect(to chan<- prometheus.Metric) {
	defer rescue.Call(context.Background(), func(reason string) {
		err := errors.New(reason)
		to <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	})
	c.Collector.Collect(to)
}
