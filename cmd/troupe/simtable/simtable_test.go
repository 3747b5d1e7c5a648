package simtable

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/supervisor/sim/run"
)

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	err := Write(&out, &run.Summary{
		Scenario: "drain", Seed: 7, Nodes: 3, Pods: 9, PodsRunning: 8, SimSeconds: 90, WallSeconds: 0.05, Messages: 1234, HeapBytes: 3 << 20, PeakRSSBytes: 41 << 20,
		Start: run.Percentiles{P50: 812.4, P90: 1500, P99: 20000}, Restarts: 2, TraceHash: "00ff", Expectations: 2,
		Failures: []string{"f.yaml:3: at 1m0s: want ready 9; got ready 8"}, Interrupted: true,
	})
	want := `scenario        drain
seed            7
nodes           3
pods running    8 of 9
start latency   p50 812ms, p90 1.5s, p99 20s
restarts        2
messages        1234
simulated time  1m30s in 50ms
speed           1.8e+03 simulated seconds per second
heap            3.0 MiB
peak RSS        41.0 MiB
trace hash      00ff
expectations    2, 1 not met
NOT MET f.yaml:3: at 1m0s: want ready 9; got ready 8
interrupted: partial results
`
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out.String(), want)
	}
}

func TestBar(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	b := NewBar(&out, func() time.Time { return now })
	b.Clear()
	b.Show(run.Progress{Simulated: 30 * time.Second, Of: time.Minute, Pods: 10, Running: 5, Doing: "wait"})
	b.Show(run.Progress{Simulated: 31 * time.Second, Of: time.Minute})
	now = now.Add(time.Second)
	b.Show(run.Progress{Simulated: 2 * time.Second, Doing: "x"})
	b.Clear()
	lines := strings.Split(out.String(), "\r")
	if len(lines) != 5 || lines[1] != "[###############...............] 30s of 1m0s, 5 of 10 pods run, wait" ||
		strings.TrimSpace(lines[2]) != "2s simulated, 0 of 0 pods run, x" || len(lines[2]) != len(lines[1]) || strings.TrimSpace(lines[3]) != "" {
		t.Errorf("%q", lines)
	}
}
