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
)

// Signal is what an eviction threshold watches.
type Signal string

// The signals of a Linux node (documentation, "Node-pressure Eviction").
const (
	MemoryAvailable       Signal = "memory.available"
	NodeFSAvailable       Signal = "nodefs.available"
	NodeFSInodesFree      Signal = "nodefs.inodesFree"
	ImageFSAvailable      Signal = "imagefs.available"
	ImageFSInodesFree     Signal = "imagefs.inodesFree"
	ContainerFSAvailable  Signal = "containerfs.available"
	ContainerFSInodesFree Signal = "containerfs.inodesFree"
	PIDAvailable          Signal = "pid.available"

	allocatableMemoryAvailable Signal = "allocatableMemory.available"
)

var signals = []Signal{
	MemoryAvailable, NodeFSAvailable, NodeFSInodesFree, ImageFSAvailable, ImageFSInodesFree,
	ContainerFSAvailable, ContainerFSInodesFree, PIDAvailable, allocatableMemoryAvailable,
}

// Amount is a quantity, or a part of what there is.
type Amount struct {
	// Quantity is in the signal's unit: bytes, inodes or processes. Nil if
	// the amount is a part.
	Quantity *resource.Quantity
	// Fraction is from 0 to 1; meant when Quantity is nil.
	Fraction float64
}

// Of gives the amount for a capacity, in the signal's unit.
func (a Amount) Of(capacity int64) int64 {
	if a.Quantity != nil {
		return a.Quantity.Value()
	}
	return int64(float64(capacity) * a.Fraction)
}

// Threshold is met while less than Value is left.
type Threshold struct {
	Signal Signal
	Value  Amount
	// Hard thresholds act at once, soft ones when met for GracePeriod.
	Hard        bool
	GracePeriod time.Duration
	// MinReclaim is how much more than Value must be reclaimed; zero for none.
	MinReclaim Amount
}

// parseThresholds reads evictionHard, evictionSoft and what belongs to them.
func parseThresholds(c *kubelet.KubeletConfiguration) ([]Threshold, field.ErrorList) {
	var errs field.ErrorList
	reclaim := map[Signal]Amount{}
	for _, name := range slices.Sorted(maps.Keys(c.EvictionMinimumReclaim)) {
		at := field.NewPath("evictionMinimumReclaim").Key(name)
		errs = append(errs, checkSignal(name, at)...)
		amount, err := parseAmount(c.EvictionMinimumReclaim[name], at)
		if err != nil {
			errs = append(errs, err)
		}
		reclaim[Signal(name)] = amount
	}
	grace := map[Signal]time.Duration{}
	for _, name := range slices.Sorted(maps.Keys(c.EvictionSoftGracePeriod)) {
		text, at := c.EvictionSoftGracePeriod[name], field.NewPath("evictionSoftGracePeriod").Key(name)
		errs = append(errs, checkSignal(name, at)...)
		period, err := time.ParseDuration(text)
		if err != nil || period < 0 {
			errs = append(errs, field.Invalid(at, text, "must be a duration of at least 0, like 1m30s"))
		}
		grace[Signal(name)] = period
	}
	var thresholds []Threshold
	for _, kind := range []struct {
		field string
		hard  bool
		given map[string]string
	}{{"evictionHard", true, c.EvictionHard}, {"evictionSoft", false, c.EvictionSoft}} {
		for _, name := range slices.Sorted(maps.Keys(kind.given)) {
			text, at := kind.given[name], field.NewPath(kind.field).Key(name)
			errs = append(errs, checkSignal(name, at)...)
			period, has := grace[Signal(name)]
			if !kind.hard && !has {
				errs = append(errs,
					field.Required(field.NewPath("evictionSoftGracePeriod").Key(name), "every soft threshold needs a grace period"))
			}
			// Both switch a threshold off.
			if text == "0%" || text == "100%" {
				continue
			}
			amount, err := parseAmount(text, at)
			switch {
			case err != nil:
				errs = append(errs, err)
			case amount.Quantity != nil && amount.Quantity.Sign() == 0:
				errs = append(errs, field.Invalid(at, text, "must be above 0; 0% switches the threshold off"))
			}
			t := Threshold{Signal: Signal(name), Value: amount, Hard: kind.hard, MinReclaim: reclaim[Signal(name)]}
			if !kind.hard {
				t.GracePeriod = period
			}
			thresholds = append(thresholds, t)
		}
	}
	slices.SortStableFunc(thresholds, func(a, b Threshold) int {
		return strings.Compare(string(a.Signal), string(b.Signal))
	})
	return thresholds, errs
}

func checkSignal(name string, at *field.Path) field.ErrorList {
	if slices.Contains(signals, Signal(name)) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, Signal(name), signals)}
}

func parseAmount(text string, at *field.Path) (Amount, *field.Error) {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		n, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(n >= 0 && n <= 100) {
			return Amount{}, field.Invalid(at, text, "must be from 0% to 100%")
		}
		return Amount{Fraction: n / 100}, nil
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() < 0 {
		return Amount{}, field.Invalid(at, text, "must be a quantity or a percentage, like 100Mi or 10%")
	}
	return Amount{Quantity: &quantity}, nil
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
