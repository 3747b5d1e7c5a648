package config

import (
	"fmt"
	"slices"
	"strings"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

// actsOnGate are the feature gates that this version asks for. Any other gate does nothing, whatever
// its value: see [Gates.Enabled].
var actsOnGate = map[string]struct{}{
	allAlpha: {}, allBeta: {}, // what they switch is named by withoutEffectInGroup
	"KubeletCrashLoopBackOffMax": {}, // the default of crashLoopBackOff follows it
	"ComponentFlagz":             {}, "ComponentStatusz": {}, "ContainerCheckpoint": {}, "PodLogsQuerySplitStreams": {},
	"MemoryQoS": {}, "LocalStorageCapacityIsolationFSQuotaMonitoring": {},
	"CPUManagerPolicyAlphaOptions": {}, "CPUManagerPolicyBetaOptions": {}, "DisableCPUQuotaWithExclusiveCPUs": {},
	"InPlacePodVerticalScalingExclusiveCPUs": {},
	"CSIVolumeHealth":                        {},
	"SELinuxMount":                           {},
	"AllowDNSOnlyNodeCSR":                    {},
	"KubeletPodResourcesListUseActivePods":   {},
	"ResourceHealthStatus":                   {}, "ResourceHealthStatusMessage": {},
	"ClusterTrustBundle": {}, "ClusterTrustBundleProjection": {}, "PodCertificateRequest": {},
	"GracefulNodeShutdown": {}, "GracefulNodeShutdownBasedOnPodPriority": {},
	// These are declared to schedulers and to the apiserver: see declared in supervisor/node.
	"InPlacePodLevelResourcesVerticalScaling": {}, "InPlacePodVerticalScalingInitContainers": {},
	"RestartAllContainersOnContainerExits": {}, "ExtendWebSocketsToKubelet": {},
	// A field that acts is refused without one of these.
	"CustomCPUCFSQuotaPeriod": {}, "NodeLogQuery": {}, "QOSReserved": {}, "RotateKubeletServerCertificate": {},
	tokenGate: {}, pullGate: {},
}

// actsWithGate are fields that act only while a feature gate is on, and are not refused without it.
var actsWithGate = map[string]string{
	"memoryReservationPolicy": "MemoryQoS", "memoryThrottlingFactor": "MemoryQoS", "qosReserved": "QOSReserved",
}

// needs says of fields that act why they do not act in this configuration.
func needs(k *kubelet.KubeletConfiguration, gates Gates) map[string]string {
	out := map[string]string{}
	for field, gate := range actsWithGate { // order-free: a map again
		if !gates.on(gate) {
			out[field] = "feature gate " + gate
		}
	}
	if k.StaticPodURL == "" {
		out["staticPodURLHeader"] = "staticPodURL"
	}
	if k.TopologyManagerPolicy == kubelet.NoneTopologyManagerPolicy {
		out["topologyManagerPolicyOptions"] = "a topologyManagerPolicy"
	}
	return out
}

// withoutEffect names the narrowest part of an origin's key that has no effect, and returns its path; empty if it has
// one. A gate with its default value changes nothing.
func withoutEffect(key string, gates Gates, needs map[string]string) (path []string, name string) {
	parts := strings.Split(key, joint)
	field := parts[0]
	switch {
	case field == "featureGates" && len(parts) > 1:
		gate := parts[1]
		if _, acts := actsOnGate[gate]; acts {
			return nil, ""
		}
		if known, ok := findGate(gate); ok && gates.on(gate) == known.byDefault {
			return nil, ""
		}
		return parts, field + "[" + gate + "]"
	case needs[field] != "":
		return parts[:1], field + " (needs " + needs[field] + ")"
	}
	n := idlePart(parts)
	return parts[:n], strings.Join(parts[:n], ".")
}

// idlePart is how many of the names of a path lead to what has no effect; 0 if it has one. Of a part that has settings
// within it one must have an effect. What is not among the settings has none.
func idlePart(names []string) int {
	for n := len(names); n > 0; n-- {
		path := strings.Join(names[:n], ".")
		within := func(s setting) bool { return s.path == path || strings.HasPrefix(s.path, path+".") }
		switch {
		case slices.ContainsFunc(settings, func(s setting) bool { return within(s) && s.is&idle == 0 }):
			return 0
		case slices.ContainsFunc(settings, within):
			return n
		}
	}
	return 1
}

// withoutEffectInGroups are the gates that have another value than their default because AllAlpha or AllBeta is given,
// and that have no effect, a line for each group. Gates that are given by themselves are not among them.
func withoutEffectInGroups(gates Gates) (lines []string) {
	for _, group := range []string{allAlpha, allBeta} {
		stage := map[string]Stage{allAlpha: alpha, allBeta: beta}[group]
		if _, given := gates.set[group]; !given {
			continue
		}
		var names []string
		for _, g := range knownGates {
			_, itself := gates.set[g.name]
			_, acts := actsOnGate[g.name]
			if g.stage == stage && !itself && !acts && gates.on(g.name) != g.byDefault {
				names = append(names, g.name)
			}
		}
		if len(names) > 0 {
			lines = append(lines, fmt.Sprintf("feature gates of %s that have no effect: %s", group, strings.Join(names, ", ")))
		}
	}
	return lines
}
