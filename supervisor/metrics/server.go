package metrics

import (
	"context"
	"crypto/tls"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/serve"
)

// serverMetrics are those of the servers of the node, and of pulls of images.
type serverMetrics struct {
	served, webSockets     *prometheus.CounterVec
	servedTimes, pullTimes *prometheus.HistogramVec
	inflight               *prometheus.GaugeVec
}

func (m *Metrics) newServerMetrics() serverMetrics {
	request := []string{"method", "path", "server_type", "long_running"}
	return serverMetrics{
		served: m.counters("kubelet_http_requests_total",
			"Number of the http requests received since the server started", request...),
		webSockets: m.counters("kubelet_websocket_streaming_requests_total",
			"Total number of WebSocket streaming requests (exec/attach/portforward) received by the kubelet.", "subresource"),
		servedTimes: m.histograms("kubelet_http_requests_duration_seconds", "Duration in seconds to serve http requests",
			prometheus.DefBuckets, request...),
		inflight: m.gauges("kubelet_http_inflight_requests", "Number of the inflight http requests", request...),
		pullTimes: m.histograms("kubelet_image_pull_duration_seconds", "Duration in seconds to pull an image.", pullBuckets,
			"image_size_in_bytes"),
	}
}

// Served counts a request to the node's servers: it is what a serve.Config observes
// with.
func (m *Metrics) Served(r serve.Served) (done func()) {
	server := "readwrite"
	if r.ReadOnly {
		server = "readonly"
	}
	labels := []string{r.Method, r.Path, server, strconv.FormatBool(longRunning[r.Path])}
	m.served.WithLabelValues(labels...).Inc()
	inflight := m.inflight.WithLabelValues(labels...)
	inflight.Inc()
	begun := time.Now()
	return func() {
		inflight.Dec()
		m.servedTimes.WithLabelValues(labels...).Observe(time.Since(begun).Seconds())
	}
}

// WebSocket counts a WebSocket that a streams.Config tells of.
func (m *Metrics) WebSocket(subresource string) { m.webSockets.WithLabelValues(subresource).Inc() }

// longRunning are the paths that a kubelet labels so: followed logs are not.
var longRunning = map[string]bool{"exec": true, "attach": true, "portForward": true, "debug": true}

// ServerCertificate shows when the certificate of the HTTPS server ends that the cluster signs. current may fail while
// there is none.
func (m *Metrics) ServerCertificate(current func() (*tls.Certificate, error)) {
	m.timeToLive("kubelet_certificate_manager_server_ttl_seconds",
		"Seconds until the serving certificate of the node expires, negative if it has expired, +Inf while there is none.",
		func() *tls.Certificate {
			c, err := current()
			if err != nil {
				return nil
			}
			return c
		})
}

// ClientCertificate shows when the certificate ends that the node shows its
// apiserver, and renews; nil for one that has ended.
func (m *Metrics) ClientCertificate(current func() *tls.Certificate) {
	m.timeToLive("kubelet_certificate_manager_client_ttl_seconds",
		"Seconds until the client certificate of the node expires, +Inf while there is no valid client certificate.", current)
}

func (m *Metrics) timeToLive(name, help string, current func() *tls.Certificate) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		c := current()
		if c == nil || c.Leaf == nil {
			return math.Inf(1)
		}
		return math.Trunc(time.Until(c.Leaf.NotAfter).Seconds())
	}))
}

// ServerRenewals gives what counts requests for the server's certificate that came
// to nothing. It is there on a node that makes such requests.
func (m *Metrics) ServerRenewals() (failed func()) {
	return m.renewals("kubelet_server_expiration_renew_errors")
}

// ServerRotations gives what counts how long the certificates of the server had been valid that were replaced. It is
// there where ServerRenewals is.
func (m *Metrics) ServerRotations() (rotated func(lived time.Duration)) {
	age := m.histogram("kubelet_certificate_manager_server_rotation_seconds",
		"Histogram of the number of seconds the previous certificate lived before being rotated.", rotationBuckets)
	return func(lived time.Duration) { age.Observe(lived.Seconds()) }
}

// ClientRenewals is ServerRenewals for the certificate that the node shows its
// apiserver.
func (m *Metrics) ClientRenewals() (failed func()) {
	return m.renewals("kubelet_certificate_manager_client_expiration_renew_errors")
}

func (m *Metrics) renewals(name string) (failed func()) {
	return m.counter(name, "Counter of certificate renewal errors.").Inc
}

var (
	// rotationBuckets are a minute, an hour, 4 hours, a day, a week, and 1, 3, 6, 12 and 48 months.
	rotationBuckets = []float64{60, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000}
	pullBuckets     = []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	// imageSizes are the labels of sizes, and above how many MiB each begins.
	imageSizes = []struct {
		above uint64
		label string
	}{
		{100 << 10, "GT100GB"}, {60 << 10, "60GB-100GB"}, {40 << 10, "40GB-60GB"}, {30 << 10, "30GB-40GB"},
		{20 << 10, "20GB-30GB"},
		{10 << 10, "10GB-20GB"}, {5 << 10, "5GB-10GB"}, {1 << 10, "1GB-5GB"}, {500, "500MB-1GB"}, {100, "100MB-500MB"},
		{10, "10MB-100MB"}, {0, "0-10MB"},
	}
)

// imageSize is the label of a size in bytes.
func imageSize(bytes uint64) string {
	for _, s := range imageSizes {
		if bytes > s.above<<20 {
			return s.label
		}
	}
	return "N/A"
}

// sizePatience is how long the runtime may take to tell how big an image is.
const sizePatience = 10 * time.Second

// PullImage implements port.Runtime. How big the image is the runtime tells when
// it is asked for the image that it has now.
func (s *starts) PullImage(ctx context.Context, r port.PullImage, done func(string, error)) {
	begun := time.Now()
	s.Runtime.PullImage(ctx, r, func(ref string, err error) {
		if err == nil {
			took := time.Since(begun)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sizePatience) // the pull's own ends with it
			s.ImageStatus(ctx, ref, func(image observed.Image, ok bool, err error) {
				cancel()
				if !ok || err != nil {
					image.SizeBytes = 0
				}
				s.metrics.pullTimes.WithLabelValues(imageSize(image.SizeBytes)).Observe(took.Seconds())
			})
		}
		done(ref, err)
	})
}
