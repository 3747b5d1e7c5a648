package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

const goodDevices = `
name: GPUs
nodes:
  count: 10
  cpu: "8"
  memory: 16Gi
  numaNodes: 2
  cpuManagerPolicy: static
  topologyManagerPolicy: best-effort
  devices:
    example.com/gpu: {count: 8, latency: 200ms, boot: 20s}
steps:
- create: {workload: web, replicas: 6, image: web:v1, cpu: "2", memory: 1Gi, guaranteed: true, devices: {example.com/gpu: 4}}
- stopPlugin: {resource: example.com/gpu, count: 4}
- startPlugin: {resource: example.com/gpu, same: true}
- failDevices: {resource: example.com/gpu, devices: 2, nodes: [n00003]}
- healDevices: {resource: example.com/gpu, same: true}
`

func TestParseDevices(t *testing.T) {
	f := check.Value(Parse("f.yaml", []byte(goodDevices), Given{}))(t)
	d := f.Nodes.Devices["example.com/gpu"]
	if d.Count != 8 || d.Latency.Duration != 200*time.Millisecond || d.Boot.Duration != 20*time.Second || f.Nodes.NUMANodes != 2 || f.Nodes.CPUs() != 8 {
		t.Errorf("%+v", f.Nodes)
	}
	if c := f.Steps[0].Create; !c.Guaranteed || c.Devices["example.com/gpu"] != 4 {
		t.Errorf("create: %+v", c)
	}
	if s := f.Steps[3].FailDevices; s.Devices != 2 || s.Nodes[0] != "n00003" || f.Steps[3].Do() != "failDevices" {
		t.Errorf("failDevices: %+v", s)
	}
	check.Count(t, (&Nodes{}).CPUs(), DefaultCPUs, "%d CPUs")
}

// Each row changes one thing of the good file.
func TestMistakesOfDevices(t *testing.T) {
	for _, c := range []struct{ old, with, want string }{
		{"{count: 8", "{count: 0", "f.yaml:11: nodes.devices[example.com/gpu].count: 0: must be from 1 to 1024"},
		{"    example.com/gpu:", "    gpu:", "f.yaml:11: nodes.devices[gpu]: must be an extended resource, like example.com/gpu"},
		{"latency: 200ms", "latency: 0s", "f.yaml:11: nodes.devices[example.com/gpu].latency: 0s: must be from 1ms"},
		{"boot: 20s", "boot: -1s", "f.yaml:11: nodes.devices[example.com/gpu].boot: -1s: must be from 0s"},
		{"numaNodes: 2", "numaNodes: 17", "f.yaml:7: nodes.numaNodes: 17: must be from 1 to 16"},
		{"numaNodes: 2", "numaNodes: 9", "f.yaml:7: nodes.numaNodes: 9: there are only 8 CPUs"},
		{"static", "Dynamic", `f.yaml:8: nodes.cpuManagerPolicy: "Dynamic": must be one of none, static, dynamic`},
		{"best-effort", "best", `f.yaml:9: nodes.topologyManagerPolicy: "best": must be one of none, best-effort, restricted, single-numa-node`},
		{"{example.com/gpu: 4}", "{example.com/gpu: 9}", "f.yaml:13: steps[0].create.devices[example.com/gpu]: 9: must be from 1 to 8"},
		{"{example.com/gpu: 4}", "{example.com/tpu: 1}", `f.yaml:13: steps[0].create.devices[example.com/tpu]: "example.com/tpu": no device plugin serves it`},
		{"memory: 1Gi, ", "", "f.yaml:13: steps[0].create.guaranteed: needs cpu and memory"},
		{"gpu, count: 4", "gpu, devices: 2, count: 4", "f.yaml:14: steps[1].stopPlugin.devices: a plugin has all its devices: leave it out"},
		{"gpu, count: 4", "tpu, count: 4", `f.yaml:14: steps[1].stopPlugin.resource: "example.com/tpu": no device plugin serves it`},
		{"startPlugin: {resource: example.com/gpu, same: true}", "startPlugin: {resource: example.com/gpu}", "f.yaml:15: steps[2].startPlugin: must have exactly one of nodes, count, same"},
		{"devices: 2", "devices: 9", "f.yaml:16: steps[3].failDevices.devices: 9: must be from 1 to 8"},
	} {
		text := strings.Replace(goodDevices, c.old, c.with, 1)
		if text == goodDevices {
			t.Fatalf("%q is not in the good file", c.old)
		}
		_, err := Parse("f.yaml", []byte(text), Given{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v; want %s", c.with, err, c.want)
		}
	}
}
