package report

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		mutate func(*Data)
		want   string // what the error names; empty if there is none
	}{
		{"nothing at all", func(d *Data) { *d = Data{} }, ""},
		{"as it is", func(*Data) {}, ""},
		{"a fault beyond the end", func(d *Data) { d.Marks[0].Until = 2 * d.Duration }, ""},
		{"negative duration", func(d *Data) { d.Duration = -1 }, "Data.Duration"},
		{"endless duration", func(d *Data) { d.Duration = 2 * longest }, "Data.Duration"},
		{"negative pods", func(d *Data) { d.Figures.Pods = -1 }, "Figures.Pods "},
		{"negative restarts", func(d *Data) { d.Figures.Restarts = -1 }, "Figures.Restarts"},
		{"negative wall time", func(d *Data) { d.Figures.Wall = -1 }, "Figures.Wall"},
		{"percentiles fall", func(d *Data) { d.Figures.StartP90 = d.Figures.StartP99 + 1 }, "StartP90"},
		{"a look after the end", func(d *Data) { d.Phases[1].At = d.Duration + 1 }, "Data.Phases[1].At"},
		{"looks out of order", func(d *Data) { d.Phases[0].At = time.Minute }, "Data.Phases[1].At"},
		{"negative phase", func(d *Data) { d.Phases[0].Pods[Failed] = -1 }, `"Failed"`},
		{"negative latency", func(d *Data) { d.Starts[0].Took = -1 }, "Data.Starts[0]"},
		{"endless latency", func(d *Data) { d.Starts[0].Took = 2 * longest }, "Data.Starts[0]"},
		{"column without width", func(d *Data) { d.Heat.Column = 0 }, "Heat.Column"},
		{"cells after the end", func(d *Data) { d.Heat.Nodes[1].Cells = append(d.Heat.Nodes[1].Cells, Cell{}, Cell{}) }, `node "node-2" has 4 cells`},
		{"more ready than pods", func(d *Data) { d.Heat.Nodes[0].Cells[0].Ready = 99 }, `cell 0 of node "node-1"`},
		{"more down than looks", func(d *Data) { d.Heat.Nodes[0].Cells[0].Down = 99 }, `cell 0 of node "node-1"`},
		{"mark before the run", func(d *Data) { d.Marks[0].At = -1 }, "Data.Marks[0]"},
		{"mark that ends before it begins", func(d *Data) { d.Marks[0].Until = d.Marks[0].At - 1 }, "Data.Marks[0]"},
		{"failure after the run", func(d *Data) { d.Failures[0].At = d.Duration + 1 }, "Data.Failures[0].At"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := small()
			c.mutate(&d)
			err := d.Validate()
			if c.want == "" && err != nil {
				t.Fatalf("got %v, want no error", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want an error that names %s", err, c.want)
			}
		})
	}
}

// small is a run of two nodes and ten pods over a minute.
func small() Data {
	return Data{
		Title: "Two nodes", Scenario: "small.txt", Seed: 7, Version: "troupe v1.2.3", Duration: time.Minute,
		Command: []string{"troupe", "sim", "--nodes", "2", "--seed", "7"},
		Figures: Figures{
			Nodes: 2, Pods: 10, PodsRunning: 8, StartP50: time.Second, StartP90: 3 * time.Second, StartP99: 4 * time.Second,
			Restarts: 3, Messages: 1234567, Wall: 250 * time.Millisecond, HeapBytes: 3 << 20, TraceHash: "9f86d081884c7d65",
		},
		Phases: []PhaseSample{
			{At: 0, Pods: PhaseCounts{Pending: 10}},
			{At: 15 * time.Second, Pods: PhaseCounts{Creating: 6, Ready: 4}},
			{At: 30 * time.Second, Pods: PhaseCounts{Ready: 8, Failed: 2}},
		},
		Starts: []Latency{{Took: time.Second, Pods: 5}, {Took: 2 * time.Second, Pods: 2}, {Took: 4 * time.Second, Pods: 1}},
		Heat: Heat{Column: 30 * time.Second, Nodes: []NodeHeat{
			{Name: "node-1", Cells: []Cell{{Looks: 2, Pods: 10, Ready: 4, Starts: 4}, {Looks: 2, Pods: 10, Ready: 10, Starts: 1, Restarts: 3}}},
			{Name: "node-2", Cells: []Cell{{Looks: 2, Pods: 10, Ready: 0}, {Looks: 2, Down: 1, Pods: 10, Ready: 6, Starts: 3}}},
		}},
		Marks: []Mark{
			{At: 20 * time.Second, Until: 40 * time.Second, Kind: Fault, Text: "apiserver gone", Where: "small.txt:4"},
			{At: 0, Kind: Step, Text: "create 10 pods", Where: "small.txt:3"},
		},
		Expectations: 2,
		Failures:     []Failure{{At: 50 * time.Second, Want: "10 pods ready within 50s", Got: "8 ready", Where: "small.txt:5"}},
	}
}
