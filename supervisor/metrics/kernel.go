package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// System is what the kernel of actors tells of itself: it asks no actor, so it
// answers even when actors do not. *kernel.System and *kernel.Runner together
// are one.
type System interface {
	Metrics() []kernel.KindStats
	CrashCounts() map[kernel.CrashKind]uint64
	DeadLettersByName() map[string]uint64
	Counts() map[string]kernel.KindCount
	UnderWay() []kernel.KindInFlight
	Pools() []kernel.PoolState
}

func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	actors = described("troupe_actors",
		"Number of actors, by kind and state: running, restarting (waiting to be restarted) or quarantined.", "kind", "state")
	depth   = described("troupe_mailbox_messages", "Number of messages queued in mailboxes, by actor kind.", "kind")
	fullest = described("troupe_mailbox_messages_max",
		"Number of messages queued in the fullest mailbox, by actor kind.", "kind")
	oldest = described("troupe_mailbox_oldest_message_age_seconds",
		"Age in seconds of the oldest queued message, by actor kind.", "kind")
	busy = described("troupe_actor_handling_seconds",
		"Age in seconds of the longest-running message handler, by actor kind; 0 if no handler is running.", "kind")
	handled = described("troupe_messages_handled_total",
		"Cumulative number of messages handled, by actor kind.", "kind")
	lost = described("troupe_messages_dropped_total",
		"Cumulative number of messages dropped because the mailbox was full, by actor kind.", "kind")
	coalesced = described("troupe_messages_coalesced_total",
		"Cumulative number of queued messages replaced by a newer message with the same content (coalesced), by actor kind.",
		"kind")
	restarts = described("troupe_actor_restarts_total", "Cumulative number of actor restarts, by actor kind.", "kind")
	crashes  = described("troupe_actor_crashes_total",
		"Cumulative number of actor panics, by actor kind and by the decision of the supervisor: restart, quarantine, "+
			"escalate, ended or contained.", "kind", "decision")
	unreceived = described("troupe_dead_letters_total",
		"Cumulative number of messages to stopped actors (dead letters), by message type.", "message")

	underWay = described("troupe_effects_in_flight",
		"Number of unfinished effects, by kind and phase: queued, running or overdue.", "kind", "phase")
	oldestUnder = described("troupe_effect_oldest_age_seconds",
		"Age in seconds of the oldest unfinished effect in its phase, by kind; standing effects (without a deadline) are "+
			"not counted.", "kind")
	effects = described("troupe_effect_duration_seconds",
		"Duration in seconds of effects that finished within their deadlines.", "kind")
	ended = described("troupe_effects_ended_total",
		"Cumulative number of effects that did not finish within their deadline, by outcome: expired (the deadline "+
			"passed), late (the result came after the deadline) or dropped (never started).", "kind", "how")

	slots   = described("troupe_pool_slots", "Number of slots, by pool.", "pool")
	held    = described("troupe_pool_slots_held", "Number of slots in use, by pool.", "pool")
	waiting = described("troupe_pool_waiting", "Number of effects waiting for a slot, by pool.", "pool")

	cgroupTimes = described("kubelet_cgroup_manager_duration_seconds",
		"Duration in seconds for cgroup manager operations. Broken down by method.", "operation_type")
	statusTimes = described("kubelet_pod_status_sync_duration_seconds",
		"Duration in seconds to write the status of a pod to the apiserver.")
)

// cgroupOperations are effects as a kubelet names them.
var cgroupOperations = map[string]string{
	"SetPodCgroup": "create", "SetCgroup": "update", "RemovePodCgroup": "destroy",
}

// kernelCollector is a System as a collector.
type kernelCollector struct{ of System }

// Describe implements prometheus.Collector.
func (kernelCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (k kernelCollector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, s := range k.of.Metrics() {
		gauge(actors, float64(s.Actors-s.Quarantined-s.Restarting), s.Kind, "running")
		gauge(actors, float64(s.Restarting), s.Kind, "restarting")
		gauge(actors, float64(s.Quarantined), s.Kind, "quarantined")
		gauge(depth, float64(s.Depth), s.Kind)
		gauge(fullest, float64(s.MaxDepth), s.Kind)
		gauge(oldest, s.MaxAge.Seconds(), s.Kind)
		gauge(busy, s.Busy.Seconds(), s.Kind)
		counter(handled, s.Handled, s.Kind)
		counter(lost, s.Dropped, s.Kind)
		counter(coalesced, s.Coalesced, s.Kind)
		counter(restarts, s.Restarts, s.Kind)
	}
	for key, n := range k.of.CrashCounts() { // order-free: sorted as they are written
		counter(crashes, n, key.Kind, key.Decision.String())
	}
	for name, n := range k.of.DeadLettersByName() { // order-free: sorted as they are written
		counter(unreceived, n, name)
	}
	for _, e := range k.of.UnderWay() {
		gauge(underWay, float64(e.Queued), e.Kind, "queued")
		gauge(underWay, float64(e.Started), e.Kind, "running")
		gauge(underWay, float64(e.Overdue), e.Kind, "overdue")
		gauge(oldestUnder, e.Oldest.Seconds(), e.Kind)
	}
	k.effects(to, counter)
	for _, p := range k.of.Pools() {
		gauge(slots, float64(p.Size), p.Name)
		gauge(held, float64(p.Held), p.Name)
		gauge(waiting, float64(p.Waiting), p.Name)
	}
}

func (k kernelCollector) effects(to chan<- prometheus.Metric, counter func(*prometheus.Desc, uint64, ...string)) {
	counts := k.of.Counts()
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		c := counts[kind]
		counter(ended, c.Expired, kind, "expired")
		counter(ended, c.Late, kind, "late")
		counter(ended, c.Dropped, kind, "dropped")
		if c.Finished == 0 {
			continue
		}
		to <- histogram(effects, &c, kind)
		if as, is := cgroupOperations[kind]; is {
			to <- histogram(cgroupTimes, &c, as)
		}
		if kind == statusEffect {
			to <- histogram(statusTimes, &c)
		}
	}
}

// statusEffect is the write of a pod's status (actors/status).
const statusEffect = "PatchPodStatus"

func histogram(d *prometheus.Desc, c *kernel.KindCount, labels ...string) prometheus.Metric {
	buckets := map[float64]uint64{}
	var sum uint64
	for i, limit := range kernel.EffectBuckets {
		sum += c.Within[i]
		buckets[limit.Seconds()] = sum
	}
	return prometheus.MustNewConstHistogram(d, c.Finished, c.Total.Seconds(), buckets, labels...)
}
