package node

import (
	"errors"
	"fmt"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/fakecollector"
)

// TestTracing shows what an OTLP collector gets of an agent that starts a pod: the pod's start, and the calls to the
// runtime that it took.
//
//tier:real
func TestTracing(t *testing.T) {
	t.Parallel()
	c := fakecollector.Start(t)
	b := started(t, lab.Containerd2, func(config *Config) {
		config.Settings = fmt.Sprintf("tracing:\n  endpoint: %s\n  samplingRatePerMillion: 1000000\n", c.Endpoint)
	})
	b.apply(t, "traced.yaml", restarts("traced", "Always", "sleep"))
	b.awaitRunning(t, "traced")
	find := func(name string) (found *otlp.Span) {
		b.await(t, "the span "+name, func() error {
			all := c.Spans(name)
			if len(all) == 0 {
				return errors.New("it has not come")
			}
			found = all[0]
			return nil
		})
		return found
	}
	pod := find("syncPod")
	check.Equal(t, fakecollector.Attributes(pod)["k8s.pod.name"], "traced-"+NodeName, "a span of the start of pod")
	for _, call := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
		s := find("runtime.v1.RuntimeService/" + call)
		if s.Kind != otlp.Span_SPAN_KIND_CLIENT || s.StartTimeUnixNano < pod.StartTimeUnixNano ||
			s.EndTimeUnixNano > pod.EndTimeUnixNano+uint64(time.Second) {
			t.Errorf("the span of %s is %v, and that of the pod's start %v", call, s, pod)
		}
	}
	if got := c.Resource(); got["service.name"] != "kubelet" || got["host.name"] != NodeName {
		t.Errorf("the spans are of %v", got)
	}
	check.Error(t, b.Stop(t.Context()))
}
