package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pulling are the metrics of what images are pulled with, under the kubelet's names.
type pulling struct {
	pluginErrors *prometheus.CounterVec
	pluginTimes  *prometheus.HistogramVec
}

func (m *Metrics) newPulling() *pulling {
	return &pulling{
		pluginErrors: m.counters("kubelet_credential_provider_plugin_errors_total",
			"Number of errors from credential provider plugin", "plugin_name"),
		pluginTimes: m.histograms("kubelet_credential_provider_plugin_duration",
			"Duration of execution in seconds for credential provider plugin", prometheus.DefBuckets, "plugin_name"),
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
