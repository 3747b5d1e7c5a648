package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
)

// parseThresholds reads evictionHard, evictionSoft and what belongs to them.
func parseThresholds(c *kubelet.KubeletConfiguration) ([]eviction.Threshold, field.ErrorList) {
	var errs field.ErrorList
	reclaim := map[eviction.Signal]eviction.Amount{}
	for _, name := range slices.Sorted(maps.Keys(c.EvictionMinimumReclaim)) {
		at := field.NewPath("evictionMinimumReclaim").Key(name)
		errs = append(errs, checkSignal(name, at)...)
		amount, err := parseReclaim(c.EvictionMinimumReclaim[name], at)
		if err != nil {
			errs = append(errs, err)
		}
		reclaim[eviction.Signal(name)] = amount
	}
	grace := map[eviction.Signal]time.Duration{}
	for _, name := range slices.Sorted(maps.Keys(c.EvictionSoftGracePeriod)) {
		text, at := c.EvictionSoftGracePeriod[name], field.NewPath("evictionSoftGracePeriod").Key(name)
		errs = append(errs, checkSignal(name, at)...)
		period, err := time.ParseDuration(text)
		if err != nil || period < 0 {
			errs = append(errs, field.Invalid(at, text, "must be a duration of at least 0, like 1m30s"))
		}
		grace[eviction.Signal(name)] = period
	}
	var thresholds []eviction.Threshold
	for _, kind := range []struct {
		field string
		hard  bool
		given map[string]string
	}{{"evictionHard", true, c.EvictionHard}, {"evictionSoft", false, c.EvictionSoft}} {
		for _, name := range slices.Sorted(maps.Keys(kind.given)) {
			text, at := kind.given[name], field.NewPath(kind.field).Key(name)
			errs = append(errs, checkSignal(name, at)...)
			// Both switch a threshold off, also without a grace period.
			if text == "0%" || text == "100%" {
				continue
			}
			period, has := grace[eviction.Signal(name)]
			if !kind.hard && !has {
				errs = append(errs,
					field.Required(field.NewPath("evictionSoftGracePeriod").Key(name), "every soft threshold needs a grace period"))
			}
			amount, err := parseAmount(text, at)
			switch {
			case err != nil:
				errs = append(errs, err)
			case amount.Quantity != nil && amount.Quantity.Sign() == 0:
				errs = append(errs, field.Invalid(at, text, "must be above 0; 0% switches the threshold off"))
			}
			signal := eviction.Signal(name)
			t := eviction.Threshold{Signal: signal, Value: amount, Hard: kind.hard, MinReclaim: reclaim[signal]}
			if !kind.hard {
				t.Grace = period
			}
			thresholds = append(thresholds, t)
		}
	}
	slices.SortStableFunc(thresholds, func(a, b eviction.Threshold) int {
		return strings.Compare(string(a.Signal), string(b.Signal))
	})
	return thresholds, errs
}

func checkSignal(name string, at *field.Path) field.ErrorList {
	if slices.Contains(eviction.Signals(), eviction.Signal(name)) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, eviction.Signal(name), eviction.Signals())}
}

// parseReclaim reads a minimum of what is reclaimed. Unlike a threshold, it may not be 0%, but more than 100%. That is
// as good as 100%: more than there is, on top of a threshold, is never left.
func parseReclaim(text string, at *field.Path) (eviction.Amount, *field.Error) {
	percent, ok := strings.CutSuffix(text, "%")
	if !ok {
		return parseAmount(text, at)
	}
	n, err := parsePercent(percent)
	if err != nil || !(n > 0) {
		return eviction.Amount{}, field.Invalid(at, text, "must be above 0%; remove it to reclaim no more than needed")
	}
	return eviction.Amount{Fraction: min(n, 1)}, nil
}

// parsePercent reads a fraction with the precision of 32 bits, so that it has the same bytes as that of a kubelet, to
// which reservedMemory must fit (eviction/helpers.go, parsePercentage).
func parsePercent(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 32)
	return float64(float32(n) / 100), err
}

func parseAmount(text string, at *field.Path) (eviction.Amount, *field.Error) {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		n, err := parsePercent(percent)
		if err != nil || !(n >= 0 && n <= 1) {
			return eviction.Amount{}, field.Invalid(at, text, "must be from 0% to 100%")
		}
		return eviction.Amount{Fraction: n}, nil
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() < 0 {
		return eviction.Amount{}, field.Invalid(at, text, "must be a quantity or a percentage, like 100Mi or 10%")
	}
	return eviction.Amount{Quantity: &quantity}, nil
}

// parseReserved reads systemReserved or kubeReserved.
func parseReserved(given map[string]string, at *field.Path) (v1.ResourceList, field.ErrorList) {
	var errs field.ErrorList
	list := v1.ResourceList{}
	allowed := []string{"cpu", "memory", "ephemeral-storage", "pid"}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(allowed, name) {
			errs = append(errs, field.NotSupported(at.Key(name), name, allowed))
			continue
		}
		quantity, err := resource.ParseQuantity(given[name])
		if err != nil || quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Key(name), given[name], "must be a quantity of at least 0, like 500m or 1Gi"))
			continue
		}
		list[v1.ResourceName(name)] = quantity
	}
	return list, errs
}
