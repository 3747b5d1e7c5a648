package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/supervisor/sim/report"
)

// sample is a run that looks like one: pods of a cluster start, are updated, crash and lose their
// nodes, by a rough model with a look each second.
type sample struct {
	nodes, pods int // pods on each node
	d           report.Data
	r           *rand.Rand

	phase [][]report.Phase
	left  [][]float64 // seconds until the phase ends
	began [][]float64 // when the pod was bound, in seconds
}

const (
	sampleLong = 10 * time.Minute
	lossFrom   = 300 * time.Second
	lossTo     = 400 * time.Second
)

// lost says whether a node is one of those that break down.
func (s *sample) lost(node int) bool { return node%16 == 5 }

func newSample(nodes, pods int) report.Data {
	s := &sample{nodes: nodes, pods: pods, r: rand.New(rand.NewPCG(7, 7))}
	s.d = report.Data{
		Title: "Rolling update while nodes are lost", Scenario: "tests/scenarios/rolling-update.txt", Seed: 42, Version: "troupe v0.4.0",
		Command:  []string{"troupe", "sim", "--nodes", fmt.Sprint(nodes), "--pods-per-node", fmt.Sprint(pods), "--seed", "42", "--scenario", "tests/scenarios/rolling-update.txt"},
		Duration: sampleLong, Expectations: 6,
		Marks: []report.Mark{
			{At: 0, Text: fmt.Sprintf("create deployment default/web with %d replicas", nodes*pods), Where: "rolling-update.txt:4"},
			{At: 150 * time.Second, Text: "update deployment default/web to image web:2, max unavailable 20%", Where: "rolling-update.txt:6"},
			{At: lossFrom, Until: lossTo, Kind: report.Fault, Text: "nodes node-0006, node-0022, node-0038, … lose power", Where: "rolling-update.txt:8"},
			{At: 310 * time.Second, Until: 345 * time.Second, Kind: report.Fault, Text: "the apiserver is away", Where: "rolling-update.txt:9"},
			{At: 480 * time.Second, Text: "image web:3 crashes at start on one pod of twenty", Where: "rolling-update.txt:11"},
		},
	}
	s.d.Heat.Column = 5 * time.Second
	s.phase, s.left, s.began = make([][]report.Phase, nodes), make([][]float64, nodes), make([][]float64, nodes)
	for n := range nodes {
		s.phase[n], s.left[n], s.began[n] = make([]report.Phase, pods), make([]float64, pods), make([]float64, pods)
		s.d.Heat.Nodes = append(s.d.Heat.Nodes, report.NodeHeat{
			Name: fmt.Sprintf("node-%04d", n+1), Cells: make([]report.Cell, sampleLong/s.d.Heat.Column),
		})
		for p := range pods {
			s.phase[n][p], s.left[n][p] = report.Pending, 1+20*s.r.Float64()
		}
	}
	for at := time.Duration(0); at < sampleLong; at += time.Second {
		s.look(at)
	}
	s.figures()
	return s.d
}

// look moves all pods by a second, and counts them.
func (s *sample) look(at time.Duration) {
	var all report.PhaseCounts
	for n := range s.nodes {
		cell := &s.d.Heat.Nodes[n].Cells[at/s.d.Heat.Column]
		cell.Looks++
		down := s.lost(n) && at >= lossFrom && at < lossTo
		if down {
			cell.Down++
		}
		for p := range s.pods {
			s.step(at, n, p, down, cell)
			ph := s.phase[n][p]
			all[ph]++
			if ph != report.Succeeded && ph != report.Failed && ph != report.Pending {
				cell.Pods++
			}
			if ph == report.Ready {
				cell.Ready++
			}
		}
	}
	s.d.Phases = append(s.d.Phases, report.PhaseSample{At: at, Pods: all})
}

func (s *sample) step(at time.Duration, n, p int, down bool, cell *report.Cell) {
	now := at.Seconds()
	ph, left := &s.phase[n][p], &s.left[n][p]
	turn := 150 + 100*float64(n*s.pods+p)/float64(s.nodes*s.pods)
	switch {
	case *ph == report.Ready && down:
		*ph, *left = report.NotReady, 1e9
		return
	case *ph == report.Ready && now >= turn && now < turn+1:
		*ph, *left = report.Terminating, 2+8*s.r.Float64()
	case *ph == report.Ready && at == 480*time.Second && (n+p)%20 == 0:
		*ph, *left = report.BackOff, 10+20*s.r.Float64()
	case *ph == report.Ready && p == 0 && n%40 == 0 && at == 520*time.Second:
		*ph = report.Failed
	case *ph == report.NotReady && *left > 1e6 && !down:
		*left = 1 + 20*s.r.Float64()
	}
	if *left -= 1; *left > 0 || down {
		return
	}
	switch *ph {
	case report.Pending:
		*ph, *left, s.began[n][p] = report.Creating, 0.4+math.Exp(0.9+0.7*s.r.NormFloat64()), now
		if s.r.IntN(60) == 0 {
			*left += 15 + 30*s.r.Float64() // an image that nobody has
		}
	case report.Creating:
		*ph, *left = report.NotReady, 1+3*s.r.Float64()
	case report.NotReady:
		*ph = report.Ready
		if s.began[n][p] > 0 {
			cell.Starts++
			took := now - s.began[n][p] + s.r.Float64()
			s.d.Starts = append(s.d.Starts, report.Latency{Took: time.Duration(took * float64(time.Second)), Pods: 1})
			s.began[n][p] = 0
		}
	case report.Terminating:
		*ph, *left = report.Pending, 0.5+2*s.r.Float64()
	case report.BackOff:
		*ph, *left = report.NotReady, 1+2*s.r.Float64()
		cell.Restarts++
		s.d.Figures.Restarts++
		if s.r.IntN(3) > 0 {
			*ph, *left = report.BackOff, 20+20*s.r.Float64()
		}
	default:
	}
}

func (s *sample) figures() {
	took := make([]time.Duration, len(s.d.Starts))
	for i, l := range s.d.Starts {
		took[i] = l.Took
	}
	slices.Sort(took)
	last := s.d.Phases[len(s.d.Phases)-1].Pods
	f := &s.d.Figures
	f.Nodes, f.Pods = s.nodes, s.nodes*s.pods
	f.PodsRunning = last[report.Ready] + last[report.NotReady] + last[report.BackOff]
	f.StartP50, f.StartP90, f.StartP99 = took[len(took)/2], took[len(took)*9/10], took[len(took)*99/100]
	f.Messages, f.Wall, f.HeapBytes = uint64(f.Pods)*117, 41234*time.Millisecond, uint64(f.Pods)*9431
	f.TraceHash = "5f3c1e09a4b7d2c85f3c1e09a4b7d2c8"
	s.d.Failures = []report.Failure{{
		At: 590 * time.Second, Want: fmt.Sprintf("%d pods of default/web ready within 110s", f.Pods),
		Got: fmt.Sprintf("%d ready, %d in back-off", last[report.Ready], last[report.BackOff]), Where: "rolling-update.txt:13",
	}}
}
