package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/memory"
)

// validate checks a defaulted and mended configuration by the constraints that
// end the start of a kubelet v1.36, and few others, which protect people
// (docs/decisions/0081). What depends on the host, such as its cgroup version
// or its cores, is not known here.
func validate(c *kubelet.KubeletConfiguration, gates Gates) field.ErrorList {
	errs := validateGates(c.FeatureGates, field.NewPath("featureGates"))
	if len(errs) > 0 {
		return errs // what follows depends on them
	}
	v := &validator{KubeletConfiguration: c, gates: gates}
	v.numbers()
	v.durations()
	v.choices()
	v.server()
	v.sources()
	v.images()
	v.nodeAllocatable()
	v.resources()
	v.shutdown()
	v.logs()
	v.registration()
	return v.errs
}

type validator struct {
	*kubelet.KubeletConfiguration
	gates Gates
	errs  field.ErrorList
}

func at(name string, more ...string) *field.Path { return field.NewPath(name, more...) }

func (v *validator) add(errs ...*field.Error) { v.errs = append(v.errs, errs...) }

func (v *validator) invalid(path *field.Path, value any, format string, args ...any) {
	v.add(field.Invalid(path, value, fmt.Sprintf(format, args...)))
}

// needsGate refuses a field that is given while its feature is off.
func (v *validator) needsGate(given bool, gate string, path *field.Path, value any) bool {
	if given && !v.gates.on(gate) {
		v.invalid(path, value, "needs feature gate %s", gate)
		return false
	}
	return given
}

func atLeast[T cmp.Ordered](v *validator, name string, value, least T) {
	if value < least {
		v.invalid(at(name), show(value), "must be at least %v", least)
	}
}

func within[T cmp.Ordered](v *validator, path *field.Path, value, least, most T) {
	if value < least || value > most {
		v.invalid(path, show(value), "must be from %v to %v", least, most)
	}
}

// show writes durations as people do.
func show(value any) any {
	if d, ok := value.(time.Duration); ok {
		return d.String()
	}
	return value
}

func choice[T ~string](v *validator, path *field.Path, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		v.add(field.NotSupported(path, value, allowed))
	}
}

func (v *validator) durations() {
	for _, d := range []struct {
		name         string
		value, least time.Duration
	}{
		{"imageMinimumGCAge", v.ImageMinimumGCAge.Duration, 0},
		{"imageMaximumGCAge", v.ImageMaximumGCAge.Duration, 0},
		{"containerLogMonitorInterval", v.ContainerLogMonitorInterval.Duration, 3 * time.Second},
	} {
		if d.value < d.least {
			v.invalid(at(d.name), d.value.String(), "must be at least %s", d.least)
		}
	}
	if age := v.ImageMaximumGCAge.Duration; age > 0 && age <= v.ImageMinimumGCAge.Duration {
		v.invalid(at("imageMaximumGCAge"), age.String(), "must be above imageMinimumGCAge, %v", v.ImageMinimumGCAge.Duration)
	}
	const standardPeriod = 100 * time.Millisecond
	if period := v.CPUCFSQuotaPeriod.Duration; v.needsGate(period != standardPeriod, "CustomCPUCFSQuotaPeriod",
		at("cpuCFSQuotaPeriod"), period.String()) {
		within(v, at("cpuCFSQuotaPeriod"), period, time.Millisecond, time.Second)
	}
	period := v.CrashLoopBackOff.MaxContainerRestartPeriod
	path := at("crashLoopBackOff", "maxContainerRestartPeriod")
	if period != nil && v.needsGate(true, "KubeletCrashLoopBackOffMax", path, period.Duration.String()) {
		within(v, path, period.Duration, time.Second, MaxCrashLoopBackOff)
	}
}

var detectionStrategies = []kubelet.ResourceChangeDetectionStrategy{
	kubelet.GetChangeDetectionStrategy, kubelet.TTLCacheChangeDetectionStrategy, kubelet.WatchChangeDetectionStrategy,
}

func (v *validator) choices() {
	choice(v, at("cpuManagerPolicy"), v.CPUManagerPolicy, cpus.None, cpus.Static, cpus.Dynamic)
	choice(v, at("memoryManagerPolicy"), v.MemoryManagerPolicy, kubelet.NoneMemoryManagerPolicy,
		kubelet.StaticMemoryManagerPolicy, memory.Restricted)
	choice(v, at("topologyManagerPolicy"), v.TopologyManagerPolicy, kubelet.NoneTopologyManagerPolicy,
		kubelet.BestEffortTopologyManagerPolicy,
		kubelet.RestrictedTopologyManagerPolicy, kubelet.SingleNumaNodeTopologyManagerPolicy)
	choice(v, at("topologyManagerScope"), v.TopologyManagerScope, kubelet.ContainerTopologyManagerScope,
		kubelet.PodTopologyManagerScope)
	choice(v, at("hairpinMode"), v.HairpinMode, kubelet.PromiscuousBridge, kubelet.HairpinVeth, kubelet.HairpinNone)
	choice(v, at("configMapAndSecretChangeDetectionStrategy"), v.ConfigMapAndSecretChangeDetectionStrategy,
		detectionStrategies...)
	choice(v, at("authorization", "mode"), v.Authorization.Mode, kubelet.KubeletAuthorizationModeAlwaysAllow,
		kubelet.KubeletAuthorizationModeWebhook)
	choice(v, at("memorySwap", "swapBehavior"), v.MemorySwap.SwapBehavior, "", "NoSwap", "LimitedSwap")
	choice(v, at("memoryReservationPolicy"), v.MemoryReservationPolicy, kubelet.NoneMemoryReservationPolicy,
		kubelet.TieredReservationMemoryReservationPolicy)
	v.needsGate(v.MemoryReservationPolicy == kubelet.TieredReservationMemoryReservationPolicy, "MemoryQoS",
		at("memoryReservationPolicy"), v.MemoryReservationPolicy)
}
