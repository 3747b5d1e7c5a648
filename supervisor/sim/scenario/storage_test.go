package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

const goodStorage = `
name: disks
nodes:
  count: 10
  csi:
    disk.example.com: {latency: 200ms, boot: 20s, provision: 1s..2s, attach: 3s~10s, detach: 2s, expand: 5s, limit: 20, zones: 3}
    cache.example.com: {noAttach: true}
steps:
- create: {workload: db, kind: StatefulSet, podManagementPolicy: Parallel, replicas: 6, image: db:v1, volumes: {data: {driver: disk.example.com, size: 10Gi}}}
- create: {workload: web, replicas: 6, image: web:v1}
- stopDriver: {driver: disk.example.com, count: 4}
- crashDriver: {driver: disk.example.com, same: true}
- startDriver: {driver: disk.example.com, same: true}
- failAttach: {driver: disk.example.com, nodes: [n00003], times: 3}
- healAttach: {driver: disk.example.com, nodes: [n00003]}
- expand: {workload: db, size: 20Gi}
- outOfService: {count: 1}
- inService: {same: true}
- wait: {workload: db, attached: 6, bound: ">=6", resizing: 0, within: 1m}
- update: {workload: db, image: db:v2}
- delete: {workload: db, claims: true}
`

func TestParseStorage(t *testing.T) {
	f := check.Value(Parse("f.yaml", []byte(goodStorage), Given{}))(t)
	d := f.Nodes.CSI["disk.example.com"]
	if d.Latency.Duration != 200*time.Millisecond || d.Provision.String() != "1s..2s" || d.Attach.String() != "3s~10s" || d.Limit != 20 || d.Zone(4) != "z1" || !f.Nodes.CSI["cache.example.com"].NoAttach {
		t.Errorf("%+v", d)
	}
	if c := f.Steps[0].Create; c.Kind != StatefulSet || c.Volumes["data"].Driver != "disk.example.com" || len(c.Volumes) != 1 {
		t.Errorf("create: %+v", c)
	}
	if s := f.Steps[5].FailAttach; s.Times != 3 || s.Driver != "disk.example.com" || s.Nodes[0] != "n00003" {
		t.Errorf("failAttach: %+v", s)
	}
	k := f.Steps[10].Wait.Condition
	if got := k.String(); got != "db: attached 6, bound >=6, resizing 0" || !k.OfVolumes() || !k.Holds(&Counts{Attached: 6, Bound: 7}) || k.Holds(&Counts{Attached: 6, Bound: 7, Resizing: 1}) {
		t.Errorf("wait: %s", got)
	}
}

// Each row changes one thing of the good file.
func TestMistakesOfStorage(t *testing.T) {
	for _, c := range []struct{ old, with, want string }{
		{"    disk.example.com:", "    Disk_:", "f.yaml:6: nodes.csi[Disk_]: a lowercase RFC 1123 subdomain"},
		{"latency: 200ms", "latency: 0s", "f.yaml:6: nodes.csi[disk.example.com].latency: 0s: must be from 1ms"},
		{"boot: 20s", "boot: -1s", "f.yaml:6: nodes.csi[disk.example.com].boot: -1s: must be from 0s"},
		{"3s~10s", "3~10", `f.yaml:6: nodes.csi[disk.example.com].attach: "3~10": must be a duration, like 3s`},
		{"3s~10s", "10s~3s", `f.yaml:6: nodes.csi[disk.example.com].attach: "10s~3s": must be a duration, like 3s`},
		{"detach: 2s", "detach: 2", "f.yaml:6: nodes.csi[disk.example.com].detach: 2: must be a duration"},
		{"limit: 20", "limit: -1", "f.yaml:6: nodes.csi[disk.example.com].limit: -1: must be from 1 to 1024"},
		{"zones: 3", "zones: -1", "f.yaml:6: nodes.csi[disk.example.com].zones: -1: must be from 1 to 1024"},
		{"noAttach: true", "noAttach: true, attach: 1s", "f.yaml:7: nodes.csi[cache.example.com].noAttach: attach and detach have no effect"},
		{"kind: StatefulSet", "kind: Statefulset", `f.yaml:9: steps[0].create.kind: "Statefulset": must be one of Deployment, StatefulSet`},
		{"kind: StatefulSet, podManagementPolicy: Parallel, ", "", "f.yaml:9: steps[0].create.volumes: needs kind: StatefulSet"},
		{"kind: StatefulSet", "kind: Deployment", "f.yaml:9: steps[0].create.podManagementPolicy: needs kind: StatefulSet"},
		{": Parallel", ": parallel", `f.yaml:9: steps[0].create.podManagementPolicy: "parallel": must be one of OrderedReady, Parallel`},
		{"{data: ", "{a.b: ", "f.yaml:9: steps[0].create.volumes[a.b]: "},
		{"size: 10Gi", "size: 0", "f.yaml:9: steps[0].create.volumes[data].size: 0: must be greater than 0"},
		{"{driver: disk.example.com, size", "{driver: tape.example.com, size", `f.yaml:9: steps[0].create.volumes[data].driver: "tape.example.com": there is no such CSI driver`},
		{"stopDriver: {driver: disk", "stopDriver: {driver: tape", `f.yaml:11: steps[2].stopDriver.driver: "tape.example.com": there is no such CSI driver`},
		{"stopDriver: {driver: disk.example.com, count: 4}", "stopDriver: {driver: disk.example.com}", "f.yaml:11: steps[2].stopDriver: must have exactly one of nodes, count, same"},
		{"times: 3", "times: 3, hang: true", "f.yaml:14: steps[5].failAttach: must have exactly one of times, takes, hang"},
		{"times: 3", "times: -3", "f.yaml:14: steps[5].failAttach.times: -3: must be from 1"},
		{"times: 3", "takes: 0s", "f.yaml:14: steps[5].failAttach.takes: 0s: must be from 1ms"},
		{"failAttach: {driver: disk", "failAttach: {driver: cache", "f.yaml:14: steps[5].failAttach.driver: volumes of cache.example.com are not attached"},
		{"size: 20Gi", "size: 10Gi", "f.yaml:16: steps[7].expand.size: 10Gi: must be more than the 10Gi that the volumes have"},
		{"expand: {workload: db", "expand: {workload: web", "f.yaml:16: steps[7].expand.workload: web has no volumes"},
		{"inService: {same: true}", "inService: {}", "f.yaml:18: steps[9].inService: must have exactly one of nodes, count, same"},
		{"image: db:v2", "image: db:v2, maxSurge: 1", "f.yaml:20: steps[11].update: db is a StatefulSet, which replaces one pod at a time"},
		{"delete: {workload: db", "delete: {workload: web", "f.yaml:21: steps[12].delete.claims: web has no volumes"},
	} {
		text := strings.Replace(goodStorage, c.old, c.with, 1)
		if text == goodStorage {
			t.Fatalf("%q is not in the good file", c.old)
		}
		_, err := Parse("f.yaml", []byte(text), Given{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v; want %s", c.with, err, c.want)
		}
	}
	const none = "name: x\nnodes: {count: 1}\nsteps:\n- wait: {attached: 0, within: 1m}\n"
	if _, err := Parse("f.yaml", []byte(none), Given{}); err == nil || !strings.Contains(err.Error(), "f.yaml:4: steps[0].wait: there are no volumes") {
		t.Error(err)
	}
}
