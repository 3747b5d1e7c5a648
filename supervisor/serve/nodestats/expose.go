package nodestats

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// metric is a name with what is said of it.
type metric struct {
	name, help string
	kind       dto.MetricType
}

func counter(name, help string) *metric { return &metric{name, help, dto.MetricType_COUNTER} }
func gauge(name, help string) *metric   { return &metric{name, help, dto.MetricType_GAUGE} }

// labels are in order of name. Samples share them.
type labels []*dto.LabelPair

// labelled makes labels of names and values in turns, which are in order of name.
func labelled(pairs ...string) labels {
	out := make(labels, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, &dto.LabelPair{Name: &pairs[i], Value: &pairs[i+1]})
	}
	return out
}

// with is l and one label more.
func (l labels) with(name, value string) labels {
	at, _ := slices.BinarySearchFunc(l, name, func(p *dto.LabelPair, name string) int {
		return cmp.Compare(p.GetName(), name)
	})
	return slices.Insert(slices.Clone(l), at, &dto.LabelPair{Name: &name, Value: &value})
}

// samples are what was read for one request. They go past the registry of
// Prometheus' library, which checks and copies each of thousands.
type samples struct{ of map[*metric]*dto.MetricFamily }

var _ prometheus.Gatherer = samples{}

func newSamples() samples { return samples{map[*metric]*dto.MetricFamily{}} }

// Gather implements prometheus.Gatherer.
func (s samples) Gather() ([]*dto.MetricFamily, error) {
	out := make([]*dto.MetricFamily, 0, len(s.of))
	for _, f := range s.of { // order-free: sorted below
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out, nil
}

// answer writes them.
func (s samples) answer(w http.ResponseWriter, r *http.Request) {
	promhttp.HandlerFor(s, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, r)
}

// add takes in a value with the time at which it was read; without one, it is of
// the time of the scrape.
func (s samples) add(m *metric, at time.Time, value float64, of labels) {
	f := s.of[m]
	if f == nil {
		f = &dto.MetricFamily{Name: &m.name, Help: &m.help, Type: &m.kind}
		s.of[m] = f
	}
	one := &dto.Metric{Label: of}
	switch m.kind {
	case dto.MetricType_COUNTER:
		one.Counter = &dto.Counter{Value: &value}
	default:
		one.Gauge = &dto.Gauge{Value: &value}
	}
	if !at.IsZero() {
		one.TimestampMs = new(at.UnixMilli())
	}
	f.Metric = append(f.Metric, one)
}

func seconds(d time.Duration) float64 { return d.Seconds() }

// unix is a time as Prometheus has it.
func unix(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
