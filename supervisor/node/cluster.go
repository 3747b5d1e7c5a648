package node

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/serve/streams"
	"github.com/troupe-dev/troupe/supervisor/version"
)

// cloudTaint is what a cloud's own controller takes away when it has seen the node (k8s.io/cloud-provider/api).
const cloudTaint = "node.cloudprovider.kubernetes.io/uninitialized"

// credential reads what --kubeconfig says; nil for a node without a cluster, or one
// that has yet to ask for it (bootstrap). What is wrong with it, or with what it is
// asked for with, is found here, before anything is begun; a missing answer is not.
func credential(c config.Config) (*rest.Config, error) {
	switch {
	case c.Standalone():
		return nil, nil
	case !needsBootstrap(c, time.Now()):
		return kube.Load(c.Options().Kubeconfig)
	}
	if _, err := kube.Load(c.Options().BootstrapKubeconfig); err != nil {
		return nil, fmt.Errorf("%s; and none can be requested: --bootstrap-kubeconfig: %w", whyBootstrap(c), err)
	}
	_, err := clientStore(c).Load()
	return nil, err
}

// dial makes the client of the apiserver. It asks nothing yet.
func dial(c config.Config, to *rest.Config, log zerolog.Logger, observe func(kube.Request)) (*kube.Client, error) {
	k := c.Kubelet()
	return kube.New(kube.Config{
		REST: to, CertificateLater: k.RotateCertificates && c.Options().BootstrapKubeconfig != "" && ownCertificate(c, to),
		Version: version.Own(), ContentType: k.ContentType, Log: log,
		QPS: float32(*k.KubeAPIQPS), Burst: int(k.KubeAPIBurst), EventQPS: eventQPS(*k.EventRecordQPS),
		EventBurst: int(k.EventBurst),
		Observe:    observe,
	})
}

// connectAPI puts the apiserver behind its port, on a node that has one. It gets the events too.
func (d *nodeDaemon) connectAPI() error {
	if d.client == nil {
		return nil
	}
	lost := &lostEvents{log: d.Log, clock: kernel.WallClock{}, count: d.counters.EventDropped}
	told, end, err := recorder(d.client, d.name, d.events, lost)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, end)
	p := &d.settings.Ports
	p.API, p.Events, p.Load = d.counters.API(d.client), told, d.client.Load
	return nil
}

// eventQPS is how many events may be written a second, below 0 for no limit, which 0 is in
// the configuration (eventRecordQPS).
func eventQPS(configured int32) float32 {
	if configured == 0 {
		return -1
	}
	return float32(configured)
}

// declared are the features that this agent has and that schedulers and the
// apiserver ask for by name before they let a pod use them here, sorted
// (k8s.io/component-helpers/nodedeclaredfeatures). Each is its own feature gate.
var declared = []string{
	streams.Feature, "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
	"RestartAllContainersOnContainerExits",
}

// ownOf is the configured part of the Node object.
func ownOf(c config.Config, m *machine, name string) nodeobject.Own {
	k := c.Kubelet()
	own := nodeobject.Own{
		Name: name, Labels: m.labels(c, name), Annotations: map[string]string{}, Taints: c.RegisterWithTaints(),
		ProviderID: k.ProviderID, Cloud: c.ExternalCloud(),
	}
	for _, name := range declared {
		if c.Gates().Enabled(name) {
			own.Declared = append(own.Declared, name)
		}
	}
	if k.EnableControllerAttachDetach == nil || *k.EnableControllerAttachDetach {
		own.Annotations[nodeobject.AttachesVolumes] = "true"
	}
	if own.Cloud {
		own.Taints = append(own.Taints, v1.Taint{Key: cloudTaint, Value: "true", Effect: v1.TaintEffectNoSchedule})
		if ips := given(c.NodeIPs()); len(ips) > 0 {
			own.Annotations[nodeobject.ProvidedIP] = strings.Join(ips, ",")
		}
	}
	return own
}

// given are the addresses of --node-ip, without 0.0.0.0 and ::, which say only which one to look for.
func given(ips []netip.Addr) (out []string) {
	for _, ip := range ips {
		if !ip.IsUnspecified() {
			out = append(out, ip.String())
		}
	}
	return out
}

// nodeAddresses are those that the node shows.
func nodeAddresses(ips []string, name string) []v1.NodeAddress {
	var out []v1.NodeAddress
	for _, ip := range ips {
		out = append(out, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	return append(out, v1.NodeAddress{Type: v1.NodeHostName, Address: name})
}

// held is the amount kept from pods: reservations for the system and for Kubernetes, and the
// eviction thresholds.
func held(c config.Config) func(v1.ResourceName, int64) int64 {
	system, kube := c.Reserved()
	left := map[v1.ResourceName]eviction.Amount{}
	for _, t := range c.Evictions() {
		switch {
		case !t.Hard:
		case t.Signal == eviction.MemoryAvailable:
			left[v1.ResourceMemory] = t.Value
		case t.Signal == eviction.NodeFSAvailable:
			left[v1.ResourceEphemeralStorage] = t.Value
		}
	}
	return func(name v1.ResourceName, capacity int64) int64 {
		var sum int64
		for _, list := range []v1.ResourceList{system, kube} {
			q := list[name]
			if name == v1.ResourceCPU {
				sum += q.MilliValue()
			} else {
				sum += q.Value()
			}
		}
		if amount, ok := left[name]; ok {
			sum += amount.Of(capacity)
		}
		return sum
	}
}
