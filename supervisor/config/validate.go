package config

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubelet "k8s.io/kubelet/config/v1beta1"
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
	v.rules()
	v.durations()
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

func choice[T ~string](v *validator, path *field.Path, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		v.add(field.NotSupported(path, value, allowed))
	}
}

func (v *validator) durations() {
	if age := v.ImageMaximumGCAge.Duration; age > 0 && age <= v.ImageMinimumGCAge.Duration {
		v.invalid(at("imageMaximumGCAge"), age.String(), "must be above imageMinimumGCAge, %v", v.ImageMinimumGCAge.Duration)
	}
	const standardPeriod = 100 * time.Millisecond
	period := v.CPUCFSQuotaPeriod.Duration
	v.needsGate(period != standardPeriod, "CustomCPUCFSQuotaPeriod", at("cpuCFSQuotaPeriod"), period.String())
	if period := v.CrashLoopBackOff.MaxContainerRestartPeriod; period != nil {
		v.needsGate(true, "KubeletCrashLoopBackOffMax", at("crashLoopBackOff", "maxContainerRestartPeriod"),
			period.Duration.String())
	}
}
