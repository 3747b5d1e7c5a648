package config

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// TestShutdown: the two ways to configure the periods, and the gates that turn them off.
func TestShutdown(t *testing.T) {
	both := func(k *kubelet.KubeletConfiguration) {
		k.ShutdownGracePeriod = metav1.Duration{Duration: 30 * time.Second}
		k.ShutdownGracePeriodCriticalPods = metav1.Duration{Duration: 10 * time.Second}
	}
	three := func(k *kubelet.KubeletConfiguration) {
		k.ShutdownGracePeriodByPodPriority = []kubelet.ShutdownGracePeriodByPodPriority{
			{Priority: 1000, ShutdownGracePeriodSeconds: 5}, {Priority: 0, ShutdownGracePeriodSeconds: 20}, {Priority: 10, ShutdownGracePeriodSeconds: 7},
		}
	}
	for name, c := range map[string]struct {
		change func(*kubelet.KubeletConfiguration)
		gates  map[string]bool
		groups int
		total  time.Duration
	}{
		"by default":           {change: func(*kubelet.KubeletConfiguration) {}},
		"two periods":          {change: both, groups: 2, total: 30 * time.Second},
		"by priority":          {change: three, groups: 3, total: 32 * time.Second},
		"turned off":           {change: both, gates: map[string]bool{"GracefulNodeShutdown": false}},
		"priorities are off":   {change: three, gates: map[string]bool{"GracefulNodeShutdownBasedOnPodPriority": false}},
		"two without priority": {change: both, gates: map[string]bool{"GracefulNodeShutdownBasedOnPodPriority": false}, groups: 2, total: 30 * time.Second},
	} {
		config := Default()
		c.change(&config.kubelet)
		config.gates = Gates{c.gates}
		got := config.Shutdown()
		if len(got) != c.groups || got.Total() != c.total {
			t.Errorf("%s: %+v", name, got)
		}
		for i := 1; i < len(got); i++ {
			if got[i].Priority <= got[i-1].Priority {
				t.Errorf("%s: not in order: %+v", name, got)
			}
		}
	}
}
