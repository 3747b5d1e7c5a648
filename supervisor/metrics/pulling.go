package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/actors/decide/imagecache"
)

// pulling are the metrics of what images are pulled with, under the kubelet's names.
type pulling struct {
	pluginErrors *prometheus.CounterVec
	pluginTimes  *prometheus.HistogramVec
	verified     *prometheus.CounterVec
	intents      prometheus.Gauge
	records      prometheus.Gauge
	ahead        *prometheus.GaugeVec
}

func (m *Metrics) newPulling() *pulling {
	return &pulling{
		pluginErrors: m.counters("kubelet_credential_provider_plugin_errors_total",
			"Number of errors from credential provider plugin", "plugin_name"),
		pluginTimes: m.histograms("kubelet_credential_provider_plugin_duration",
			"Duration of execution in seconds for credential provider plugin", prometheus.DefBuckets, "plugin_name"),
		verified: m.counters("kubelet_imagemanager_image_mustpull_checks_total",
			"Counter for how many times kubelet checked whether credentials need to be re-verified to access an image",
			"result"),
		intents: m.gauge("kubelet_imagemanager_ondisk_pullintents", "Number of ImagePullIntents stored on disk."),
		records: m.gauge("kubelet_imagemanager_ondisk_pulledrecords", "Number of ImagePulledRecords stored on disk."),
		ahead: m.gauges("troupe_images_ahead",
			"Images of --pull-ahead-images and --pull-ahead-lists, by state: present, waiting, failed, "+
				"held (back: removed, or did not fit on the disk).", "state"),
	}
}

// Verified implements images.Counts.
func (m *Metrics) Verified(result string) { m.pulling.verified.WithLabelValues(result).Inc() }

// Recorded implements images.Counts.
func (m *Metrics) Recorded(intents, records int) {
	m.pulling.intents.Set(float64(intents))
	m.pulling.records.Set(float64(records))
}

// PulledAhead implements prepull.Counts.
func (m *Metrics) PulledAhead(c imagecache.Counts) {
	for state, n := range map[string]int{ // order-free: each has its own gauge
		"present": c.Present, "waiting": c.Waiting, "failed": c.Failed, "held": c.Held,
	} {
		m.pulling.ahead.WithLabelValues(state).Set(float64(n))
	}
}

// CredentialPluginRan counts a run of a credential provider plugin.
func (m *Metrics) CredentialPluginRan(plugin string, took time.Duration, failed bool) {
	m.pulling.pluginTimes.WithLabelValues(plugin).Observe(took.Seconds())
	if failed {
		m.pulling.pluginErrors.WithLabelValues(plugin).Inc()
	}
}

// ProvidersConfigured shows the hash of the configuration of credential provider plugins.
func (m *Metrics) ProvidersConfigured(hash string) {
	m.info("kubelet_credential_provider_config_info",
		"Information about the last applied credential provider configuration with hash as label",
		prometheus.Labels{"hash": hash}, 1)
}
