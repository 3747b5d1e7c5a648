package cpus

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Policies of the CPU manager (cpuManagerPolicy). Dynamic is one of this agent alone: static, and what containers have
// alone follows the resizes of their pods without a feature gate. The state file says Static then, so a kubelet can
// take over.
const (
	None    = "none"
	Static  = "static"
	Dynamic = "dynamic"
)

// Options are cpuManagerPolicyOptions.
type Options struct {
	FullPCPUsOnly, DistributeAcrossNUMA, AlignBySocket     bool
	DistributeAcrossCores, StrictReservation, AlignByCache bool
}

// Names of the options.
const (
	fullPCPUsOnly         = "full-pcpus-only"
	distributeAcrossNUMA  = "distribute-cpus-across-numa"
	alignBySocket         = "align-by-socket"
	distributeAcrossCores = "distribute-cpus-across-cores"
	strictReservation     = "strict-cpu-reservation"
	alignByCache          = "prefer-align-cpus-by-uncorecache"
)

// ParseOptions parses cpuManagerPolicyOptions. alpha and beta say whether options of this maturity may be set (feature
// gates CPUManagerPolicyAlphaOptions and CPUManagerPolicyBetaOptions).
func ParseOptions(options map[string]string, alpha, beta bool) (o Options, err error) {
	for name, value := range options { // order-free: each on its own, and any error will do
		to, gate, open := &o.FullPCPUsOnly, "", true
		switch name {
		case fullPCPUsOnly:
		case strictReservation:
			to = &o.StrictReservation
		case alignByCache:
			to = &o.AlignByCache
		case distributeAcrossNUMA:
			to, gate, open = &o.DistributeAcrossNUMA, "CPUManagerPolicyBetaOptions", beta
		case alignBySocket:
			to, gate, open = &o.AlignBySocket, "CPUManagerPolicyAlphaOptions", alpha
		case distributeAcrossCores:
			to, gate, open = &o.DistributeAcrossCores, "CPUManagerPolicyAlphaOptions", alpha
		default:
			return o, fmt.Errorf("cpuManagerPolicyOptions: unknown option %s", name)
		}
		if !open {
			return o, fmt.Errorf("cpuManagerPolicyOptions %s: set the feature gate %s", name, gate)
		}
		if *to, err = strconv.ParseBool(value); err != nil {
			return o, fmt.Errorf("cpuManagerPolicyOptions %s=%s: must be true or false", name, value)
		}
	}
	for _, pair := range []struct {
		a, b   string
		excess bool
	}{
		{fullPCPUsOnly, distributeAcrossCores, o.FullPCPUsOnly && o.DistributeAcrossCores},
		{distributeAcrossNUMA, distributeAcrossCores, o.DistributeAcrossNUMA && o.DistributeAcrossCores},
		{alignByCache, distributeAcrossCores, o.AlignByCache && o.DistributeAcrossCores},
		{alignByCache, distributeAcrossNUMA, o.AlignByCache && o.DistributeAcrossNUMA},
	} {
		if pair.excess {
			return o, fmt.Errorf("cpuManagerPolicyOptions: %s and %s exclude each other", pair.a, pair.b)
		}
	}
	return o, nil
}

// Fit says why the options cannot be used on a machine, or with the topology manager policy single-numa-node.
func (o Options) Fit(t *topology.Machine, singleNode bool) error {
	sockets, nodes := count(t.CPUs, socket), count(t.CPUs, node)
	switch {
	case o.AlignBySocket && singleNode:
		return fmt.Errorf("cpuManagerPolicyOptions: %s and topologyManagerPolicy single-numa-node exclude each other",
			alignBySocket)
	case o.AlignBySocket && len(sockets) > len(nodes):
		return fmt.Errorf("cpuManagerPolicyOptions: %s: this machine has %d sockets, and fewer NUMA nodes: %d",
			alignBySocket, len(sockets), len(nodes))
	default:
		return nil
	}
}

// SMTAlignmentError says that CPUs cannot be had in whole cores (full-pcpus-only).
type SMTAlignmentError struct {
	Requested, PerCore int
	// Available are the CPUs of free cores, if there are too few; -1 if the request is not a multiple of PerCore.
	Available int
}

// Error is worded as the kubelet's.
func (e *SMTAlignmentError) Error() string {
	if e.Available < 0 {
		return fmt.Sprintf("SMT Alignment Error: requested %d cpus not multiple cpus per core = %d", e.Requested, e.PerCore)
	}
	return fmt.Sprintf("SMT Alignment Error: not enough free physical CPUs: available physical CPUs = %d, "+
		"requested CPUs = %d, CPUs per core = %d", e.Available, e.Requested, e.PerCore)
}

// ShortError says that there are not enough free CPUs.
type ShortError struct{ Requested, Available int }

// Error is worded as the kubelet's.
func (e *ShortError) Error() string {
	return fmt.Sprintf("not enough cpus available to satisfy request: requested=%d, available=%d",
		e.Requested, e.Available)
}

// EmptyPoolError says that containers of a pod would have no CPUs to share (see [Split]).
type EmptyPoolError struct{ init bool }

// Error is worded as the kubelet's.
func (e *EmptyPoolError) Error() string {
	if e.init {
		return "pod rejected, pod has shared init containers but no cpus available for them"
	}
	return "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"
}

// Rejection is that of a pod for which [Take] or [Split] failed, with the kubelet's reasons.
func Rejection(err error) *admit.Rejection {
	if smt := (*SMTAlignmentError)(nil); errors.As(err, &smt) {
		return &admit.Rejection{Reason: "SMTAlignmentError", Message: smt.Error()}
	}
	if empty := (*EmptyPoolError)(nil); errors.As(err, &empty) {
		return &admit.Rejection{Reason: "EmptyPodSharedPoolError", Message: empty.Error()}
	}
	return admit.Unexpected(err)
}
