package nodestats_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/supervisor/serve/nodestats"
	"github.com/troupe-dev/troupe/tests/check"
)

var at = time.UnixMilli(1_700_000_000_123)

func cgroup(n uint64) usage.Cgroup {
	return usage.Cgroup{
		At:  at,
		CPU: &usage.CPU{Usage: time.Duration(n) * time.Second, Periods: n},
		Memory: &usage.Memory{Usage: 10 * n, WorkingSet: n, RSS: n, Faults: n, Throttles: n, Failures: 2 * n,
			Dirty: 3 * n, Writeback: 4 * n, Scanned: 5 * n, Reclaimed: 6 * n, RefaultedFile: 7 * n, RefaultedAnon: 8 * n},
		Swap: &usage.Swap{Usage: n, Limit: 100}, PIDs: &usage.PIDs{Processes: n, Threads: n, Limit: usage.NoLimit},
		IO:          []usage.Device{{Major: 8, Minor: 17, Name: "/dev/sdb1", Reads: 2 * n}, {Major: 8, Minor: 16, Reads: n, BytesWritten: n}},
		CPUPressure: &usage.Pressure{Some: usage.PressureOf{Total: time.Second}},
		Limits:      usage.Limits{CPUShares: 2, CPUQuota: 1000, CPUPeriod: 100000, Memory: 1 << 20},
	}
}

var (
	node = usage.Node{
		Name: "n1", Booted: at, Memory: 1 << 30, Cgroup: cgroup(100), Network: []usage.Interface{{Name: "eth0", RxBytes: 5}},
		Parts: []usage.Container{{Name: "pods", ID: "/kubepods", Cgroup: cgroup(50)}},
		Root: &usage.Disk{At: at, Device: "/dev/vda1", Capacity: new(uint64(1000)), Used: new(uint64(10)), Inodes: new(uint64(11)), IO: &usage.DeviceIO{
			ReadsMerged: 1, SectorsRead: 2, WritesMerged: 3, SectorsWritten: 4,
			Reading: 5 * time.Second, Writing: 6 * time.Second, Busy: 7 * time.Second, Weighted: 8 * time.Second, Current: 9,
		}},
	}
	pods = []usage.Pod{{
		Namespace: "ns", Name: "web", UID: "1", ID: "/kubepods/pod1", Started: at, Cgroup: cgroup(3),
		Network: []usage.Interface{{Name: "eth0", TxBytes: 7}}, NetworkAt: at,
		Sandbox: usage.Container{RuntimeID: "s1", ID: "/kubepods/pod1/s1", Cgroup: cgroup(1)},
		Containers: []usage.Container{
			{Name: "app", RuntimeID: "c1", ID: "/kubepods/pod1/c1", Image: "web:1", Started: at.Truncate(time.Second), Cgroup: cgroup(2), Open: &usage.Open{Descriptors: 7, Sockets: 3, Limit: new(int64(1024))}},
			{Name: "gone", RuntimeID: "c2"},
		},
	}}
)

// ask asks a path of a node.
func ask(t *testing.T, err error, path string) (string, []nodestats.Depth) {
	t.Helper()
	var depths []nodestats.Depth
	var failed []error
	routes := check.Value(nodestats.Routes(nodestats.Config{
		Cores: func() int { return 2 },
		Source: func(_ context.Context, d nodestats.Depth) (usage.Node, []usage.Pod, error) {
			depths = append(depths, d)
			return node, pods, err
		},
		Failed: func(err error) { failed = append(failed, err) },
	}))(t)
	for _, r := range routes {
		check.Error(t, r.Validate())
		if before, _, _ := strings.Cut(path, "?"); r.Path != before {
			continue
		}
		w := httptest.NewRecorder()
		r.Handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 || (err != nil) != (len(failed) == 1) {
			t.Errorf("%s: %d, failed %v: %s", path, w.Code, failed, w.Body)
		}
		return w.Body.String(), depths
	}
	t.Fatal("there is no " + path)
	return "", nil
}

// refused are names of cAdvisor's that promtool refuses, with their types: clients go by both.
var refused = map[string]dto.MetricType{
	"container_memory_failcnt": dto.MetricType_COUNTER, "container_fs_inodes_total": dto.MetricType_GAUGE,
}

func lint(t *testing.T, text string) {
	t.Helper()
	problems := check.Value(promlint.New(strings.NewReader(text)).Lint())(t)
	for _, p := range problems {
		if _, is := refused[p.Metric]; !is {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families := check.Value(parser.TextToMetricFamilies(strings.NewReader(text)))(t)
	for name, of := range refused {
		if f := families[name]; f != nil {
			check.Equal(t, f.GetType(), of, "the type of %s", name)
		}
	}
}

func TestResource(t *testing.T) {
	text, depths := ask(t, nil, "/metrics/resource")
	lint(t, text)
	if len(depths) != 1 || depths[0] != nodestats.Basic {
		t.Errorf("read %v", depths)
	}
	want := `container_cpu_usage_seconds_total{container="app",namespace="ns",pod="web"} 2 1700000000123
container_memory_working_set_bytes{container="app",namespace="ns",pod="web"} 2 1700000000123
container_start_time_seconds{container="app",namespace="ns",pod="web"} 1.7e+09
container_swap_limit_bytes{container="app",namespace="ns",pod="web"} 100 1700000000123
container_swap_usage_bytes{container="app",namespace="ns",pod="web"} 2 1700000000123
node_cpu_usage_seconds_total 100 1700000000123
node_memory_working_set_bytes 100 1700000000123
node_swap_usage_bytes 100 1700000000123
pod_cpu_usage_seconds_total{namespace="ns",pod="web"} 3 1700000000123
pod_memory_working_set_bytes{namespace="ns",pod="web"} 3 1700000000123
pod_swap_usage_bytes{namespace="ns",pod="web"} 3 1700000000123
resource_scrape_error 0
`
	var got strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			got.WriteString(line)
		}
	}
	check.Equal(t, got.String(), want, "said")
	if text, _ := ask(t, errors.New("no"), "/metrics/resource"); !strings.Contains(text, "resource_scrape_error 1") {
		t.Error("an error is not told")
	}
}

func TestCadvisor(t *testing.T) {
	text, depths := ask(t, nil, "/metrics/cadvisor")
	lint(t, text)
	if len(depths) != 1 || depths[0] != nodestats.Full {
		t.Errorf("read %v: disks cost more than a scrape may", depths)
	}
	for _, want := range []string{
		`container_cpu_usage_seconds_total{container="app",cpu="total",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 2 1700000000123`,
		`container_cpu_usage_seconds_total{container="",cpu="total",id="/kubepods/pod1",image="",name="",namespace="ns",pod="web"} 3 1700000000123`,
		`container_cpu_usage_seconds_total{container="",cpu="total",id="/kubepods",image="",name="",namespace="",pod=""} 50 1700000000123`,
		`container_cpu_usage_seconds_total{container="",cpu="total",id="/",image="",name="",namespace="",pod=""} 100 1700000000123`,
		`container_memory_working_set_bytes{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 2 1700000000123`,
		`container_memory_usage_bytes{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 20 1700000000123`,
		`container_network_transmit_bytes_total{container="",id="/kubepods/pod1/s1",image="pause",interface="eth0",name="s1",namespace="ns",pod="web"} 7 1700000000123`,
		`container_network_receive_bytes_total{container="",id="/",image="",interface="eth0",name="",namespace="",pod=""} 5 1700000000123`,
		`container_cpu_cfs_periods_total{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 2 1700000000123`,
		`container_spec_memory_limit_bytes{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 1.048576e+06`,
		`container_fs_inodes_total{container="",device="/dev/vda1",id="/",image="",name="",namespace="",pod=""} 11 1700000000123`,
		`container_fs_usage_bytes{container="",device="/dev/vda1",id="/",image="",name="",namespace="",pod=""} 10 1700000000123`,
		`container_memory_failures_total{container="app",failure_type="pgfault",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web",scope="container"} 0 1700000000123`,
		`container_fs_reads_total{container="app",device="/dev/sdb1",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 4 1700000000123`,
		`container_fs_reads_total{container="app",device="8:16",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 2 1700000000123`,
		`container_pressure_cpu_waiting_seconds_total{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 1 1700000000123`,
		`container_threads_max{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 0 1700000000123`,
		`container_memory_events_high_total{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 2 1700000000123`,
		`container_memory_events_max_total{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 4 1700000000123`,
		`container_memory_file_dirty_bytes{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 6 1700000000123`,
		`container_memory_file_writeback_bytes{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 8 1700000000123`,
		`container_memory_pgscan_total{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 10 1700000000123`,
		`container_memory_pgsteal_total{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 12 1700000000123`,
		`container_memory_workingset_refault_file_total{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 14 1700000000123`,
		`container_memory_workingset_refault_anon_total{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 16 1700000000123`,
		`container_file_descriptors{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 7 1700000000123`,
		`container_sockets{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web"} 3 1700000000123`,
		`container_ulimits_soft{container="app",id="/kubepods/pod1/c1",image="web:1",name="c1",namespace="ns",pod="web",ulimit="max_open_files"} 1024 1700000000123`,
		`container_fs_reads_merged_total{container="",device="/dev/vda1",id="/",image="",name="",namespace="",pod=""} 1 1700000000123`,
		`container_fs_sector_reads_total{container="",device="/dev/vda1",id="/",image="",name="",namespace="",pod=""} 2 1700000000123`,
		`container_fs_writes_merged_total{container="",device="/dev/vda1",id="/",image="",name="",namespace="",pod=""} 3 1700000000123`,
		`container_fs_sector_writes_total{container="",device="/dev/vda1",id="/",image="",name="",namespace="",pod=""} 4 1700000000123`,
		`container_fs_read_seconds_total{container="",device="/dev/vda1",id="/",image="",name="",namespace="",pod=""} 5 1700000000123`,
		`container_fs_write_seconds_total{container="",device="/dev/vda1",id="/",image="",name="",namespace="",pod=""} 6 1700000000123`,
		`container_fs_io_time_seconds_total{container="",device="/dev/vda1",id="/",image="",name="",namespace="",pod=""} 7 1700000000123`,
		`container_fs_io_time_weighted_seconds_total{container="",device="/dev/vda1",id="/",image="",name="",namespace="",pod=""} 8 1700000000123`,
		`container_fs_io_current{container="",device="/dev/vda1",id="/",image="",name="",namespace="",pod=""} 9 1700000000123`,
		`machine_cpu_cores 2`,
		`machine_memory_bytes 1.073741824e+09`,
		`container_scrape_error 0`,
	} {
		check.Has(t, text, want, "it does not say %s", want)
	}
	if strings.Contains(text, `"gone"`) {
		t.Error("a container without a cgroup has values")
	}
}

func TestSummary(t *testing.T) {
	for path, want := range map[string]nodestats.Depth{"/stats/summary": nodestats.Disks, "/stats/summary?only_cpu_and_memory=true": nodestats.Short} {
		text, depths := ask(t, nil, path)
		var s stats.Summary
		check.Fatal(t, json.Unmarshal([]byte(text), &s))
		if len(depths) != 1 || depths[0] != want || s.Node.NodeName != "n1" || len(s.Pods) != 1 || *s.Pods[0].CPU.UsageCoreNanoSeconds != 3e9 {
			t.Errorf("%s: read %v: %s", path, depths, text)
		}
	}
}
