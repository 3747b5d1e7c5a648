package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The operations by which claims are counted.
const (
	prepare   = "PrepareResources"
	unprepare = "UnprepareResources"
)

// claims are the metrics of dynamic resource allocation, under the kubelet's names.
type claims struct {
	operations, calls *prometheus.HistogramVec
	inUse             *prometheus.GaugeVec
}

func (m *Metrics) newClaims() *claims {
	buckets := prometheus.ExponentialBucketsRange(.1, 40, 15)
	c := &claims{
		operations: m.histograms("dra_operations_duration_seconds",
			"Seconds that the ResourceClaims of a pod took to be prepared (PrepareResources) or unprepared "+
				"(UnprepareResources) or, with is_error, until a reason was told why they are not.",
			buckets, "operation_name", "is_error"),
		calls: m.histograms("dra_grpc_operations_duration_seconds",
			"Duration in seconds of calls of DRA drivers.", buckets, "driver_name", "method_name", "grpc_status_code"),
		inUse: m.gauges("dra_resource_claims_in_use",
			"Number of ResourceClaims in use on this node by DRA driver; <any> counts the claims of all drivers.",
			"driver_name"),
	}
	// A rate or an alert needs the series also where no pod has had a claim yet.
	for _, name := range []string{prepare, unprepare} {
		for _, failed := range []string{"false", "true"} {
			c.operations.WithLabelValues(name, failed)
		}
	}
	return c
}

// DriverCalled counts a call of a DRA driver.
func (m *Metrics) DriverCalled(driver, method, code string, took time.Duration) {
	m.claims.calls.WithLabelValues(driver, method, code).Observe(took.Seconds())
}

// Prepared implements claims.Counts.
func (c *claims) Prepared(took time.Duration, failed bool) {
	c.observe(prepare, took, failed)
}

// Unprepared implements claims.Counts.
func (c *claims) Unprepared(took time.Duration, failed bool) {
	c.observe(unprepare, took, failed)
}

func (c *claims) observe(name string, took time.Duration, failed bool) {
	c.operations.WithLabelValues(name, strconv.FormatBool(failed)).Observe(took.Seconds())
}

// InUse implements claims.Counts.
func (c *claims) InUse(all int, byDriver map[string]int) {
	c.inUse.Reset()
	c.inUse.WithLabelValues("<any>").Set(float64(all))
	for name, n := range byDriver { // order-free: a gauge each
		c.inUse.WithLabelValues(name).Set(float64(n))
	}
}
