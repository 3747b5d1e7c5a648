package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// The rows of the simulated world. Each measurement is a process of its own: the
// command, or a benchmark of supervisor/sim, with nothing else measured beside it.

// worldSizes are the nodes of the three sizes; each has 30 pods.
var worldSizes = [...]struct {
	nodes int
	bar   float64 // simulated seconds a second
	spike string
}{{10, 1000, "22,000"}, {1000, 10, "129"}, {5000, 1, "16"}}

const (
	worldPods  = 30 // for each node
	worldNodes = 5000
	gib        = 1 << 30
)

// worldDeterminism runs each seed twice on different numbers of threads.
func (b *bench) worldDeterminism(ctx context.Context) ([]result, error) {
	begin := time.Now()
	out, err := b.repositoryGo(ctx, []string{"TROUPE_SEEDS=" + strconv.Itoa(b.seeds)},
		"test", "-count=1", "-v", "-timeout=0", "-run=^TestSameSeedSameCluster$", "./tests/scenarios")
	r := result{
		section: simulation, what: "determinism: 10 nodes, 200 pods, 10 minutes with crashes, deletes and probes",
		bar: "1,000 seeds, each run twice on 1, 2, 8 threads: no hash differs, and different seeds differ",
	}
	if err != nil {
		b.fault("determinism: %v", err)
		r.verdict = verdict(false)
	} else if r.verdict = verdict(true); b.seeds < 1000 {
		r.verdict = fmt.Sprintf("holds for the %d seeds that were run", b.seeds)
	}
	differ := strings.Count(out, "determinism_test.go:") - strings.Count(out, "each twice")
	r.measured = fmt.Sprintf("%d seeds: %d differ", b.seeds, differ)
	r.details = []string{fmt.Sprintf("TROUPE_SEEDS=%d go test -run TestSameSeedSameCluster ./tests/scenarios took %.0f s", b.seeds, time.Since(begin).Seconds())}
	return []result{r}, nil
}

// worldScale starts all pods of the largest size at once.
func (b *bench) worldScale(ctx context.Context) ([]result, error) {
	nodes := b.largest()
	s, err := b.simulate(ctx, nodes, worldPods)
	if err != nil {
		return nil, err
	}
	pods := nodes * worldPods
	if s.PodsRunning != pods {
		b.fault("scale: %d of %d pods run", s.PodsRunning, pods)
	}
	rate := float64(pods) / s.WallSeconds
	full := nodes == worldNodes
	return []result{
		{
			section: simulation, what: fmt.Sprintf("scale: %d nodes, %d pods all Running", nodes, pods), bar: "peak RSS ≤ 1.7 GiB",
			floor:    "kwok: about 25 KB a pod, and an apiserver beside it; kubemark: 220 MB a node",
			measured: fmt.Sprintf("%.2f GiB at most, heap %.2f GiB at the end", float64(s.PeakRSSBytes)/gib, float64(s.HeapBytes)/gib),
			verdict:  sized(full, s.PodsRunning == pods && float64(s.PeakRSSBytes) <= 1.7*gib),
			details:  []string{fmt.Sprintf("troupe sim --nodes %d --pods-per-node %d --json: %s", nodes, worldPods, s.text)},
		},
		{
			section: simulation, what: fmt.Sprintf("pods to Running, wall time, %d pods", pods), bar: "≥ 2,000 a second",
			floor:    "kwok's CI gate: 10,000 pods in 60 s",
			measured: fmt.Sprintf("%.0f a second, including the start of the nodes and of the process", rate), verdict: sized(full, rate >= 2000),
		},
	}, nil
}

// worldMemory is the heap after a collection: of nodes without pods, and of pods.
func (b *bench) worldMemory(ctx context.Context) ([]result, error) {
	nodes := b.largest()
	m, err := b.worldBenchmark(ctx, "Memory", nodes)
	if err != nil {
		return nil, err
	}
	node, pod := m["B/node"], m["B/pod"]
	return []result{{
		section: simulation, what: fmt.Sprintf("memory: heap of %d nodes, %d pods", nodes, nodes*worldPods), bar: "≤ 64 KB a node, ≤ 8 KB a pod",
		measured: fmt.Sprintf("%.1f KB a node, %.2f KB a pod with its object in the apiserver", node/1024, pod/1024),
		verdict:  sized(nodes == worldNodes, node <= 64*1024 && pod <= 8*1024),
	}}, nil
}

// worldSpeed lets time pass where nothing happens but that pods are probed.
func (b *bench) worldSpeed(ctx context.Context) (all []result, err error) {
	for _, size := range worldSizes {
		if size.nodes > b.largest() {
			continue
		}
		m, err := b.worldBenchmark(ctx, "SettledWithProbes", size.nodes)
		if err != nil {
			return all, err
		}
		speed := m["sim-s/s"]
		all = append(all, result{
			section: simulation, what: fmt.Sprintf("speed: %d nodes, %d pods settled, a probe of each every 10 s", size.nodes, size.nodes*worldPods),
			bar:      fmt.Sprintf("≥ %.0f simulated seconds per second", size.bar),
			floor:    "a spike with trivial handlers: " + size.spike,
			measured: fmt.Sprintf("%.4g", speed), verdict: verdict(speed >= size.bar),
			details: []string{fmt.Sprintf("%.4g simulated seconds per CPU second of all threads, %.0f ns a probe", m["sim-s/cpu-s"], m["cpu-ns/probe"])},
		})
	}
	return all, nil
}

// worldGrowth is what a pod costs in a large world and in a small one.
func (b *bench) worldGrowth(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	const small = 100
	nodes := b.largest()
	var us, bytes [2]float64
	for i, n := range [...]int{small, nodes} {
		start := check.Must(b.worldBenchmark(ctx, "PodsToRunning", n))
		memory := check.Must(b.worldBenchmark(ctx, "Memory", n))
		us[i], bytes[i] = start["us/pod"], memory["B/pod"]
	}
	time, heap := us[1]/us[0], bytes[1]/bytes[0]
	return []result{{
		section: simulation, what: fmt.Sprintf("growth: cost of a pod among %d, compared with %d", nodes*worldPods, small*worldPods), bar: "≤ 1.5 ×",
		floor:    fmt.Sprintf("%.0f µs, %.2f KB a pod", us[0], bytes[0]/1024),
		measured: fmt.Sprintf("%.0f µs, %.2f KB a pod", us[1], bytes[1]/1024),
		ratio:    fmt.Sprintf("time %.2f ×, heap %.2f ×", time, heap), verdict: sized(nodes == worldNodes, max(time, heap) <= 1.5),
	}}, nil
}

var soakLine = regexp.MustCompile(`soak: heap ([0-9.]+) MB after warm-up, ([0-9.]+) MB at the end: ([+-][0-9.]+) %`)

// worldSoak lets a cluster with churn live.
func (b *bench) worldSoak(ctx context.Context) ([]result, error) {
	out, err := b.repositoryGo(ctx, []string{"TROUPE_SOAK=" + b.soak.String()}, "test", "-count=1", "-v", "-timeout=0", "-run=^TestSoak$", "./supervisor/sim")
	m := soakLine.FindStringSubmatch(out)
	if m == nil {
		return nil, errors.Join(err, fmt.Errorf("a soak of %v does not say how the heap grew; it is told from 8h on", b.soak))
	}
	grew, err := strconv.ParseFloat(m[3], 64)
	if err != nil {
		return nil, err
	}
	return []result{{
		section: simulation, what: fmt.Sprintf("soak: %v with churn (20 nodes, 540 pods; pods deleted, workloads rolled, agents killed, machines lost)", b.soak),
		bar: "heap grows ≤ 1 % after warm-up", floor: "kwok #1252: 35 × in two days", measured: m[1] + " MB → " + m[2] + " MB", ratio: m[3] + " %",
		verdict: sized(b.soak >= 24*time.Hour, grew <= 1),
	}}, nil
}

// largest is the size of the largest world.
func (b *bench) largest() int { return b.simNodes }

// sized is a verdict that counts for the size that the bar is about.
func sized(full, holds bool) string {
	if !full {
		return "not the size of the bar"
	}
	return verdict(holds)
}

// simulated is what troupe sim --json prints.
type simulated struct {
	PodsRunning  int     `json:"podsRunning"`
	WallSeconds  float64 `json:"wallSeconds"`
	HeapBytes    uint64  `json:"heapBytes"`
	PeakRSSBytes uint64  `json:"peakRSSBytes"`
	text         string
}

func (b *bench) simulate(ctx context.Context, nodes, pods int) (*simulated, error) {
	out, err := b.command(ctx, nil, b.binary, "sim", "--nodes", strconv.Itoa(nodes), "--pods-per-node", strconv.Itoa(pods), "--json")
	if err != nil {
		return nil, err
	}
	s := &simulated{text: "`" + strings.TrimSpace(out) + "`"}
	return s, json.Unmarshal([]byte(out), s)
}

// worldBenchmark runs a benchmark of supervisor/sim once and gives its metrics.
func (b *bench) worldBenchmark(ctx context.Context, name string, nodes int) (map[string]float64, error) {
	key := fmt.Sprint(name, nodes)
	if m := b.benchmarks[key]; m != nil {
		return m, nil // two rows tell of it
	}
	times := "1x"
	if name == "SettledWithProbes" {
		if times = "5s"; nodes > 1000 {
			times = "3x"
		}
	}
	out, err := b.repositoryGo(ctx, nil, "test", "-count=1", "-timeout=0", "-run=^$", "-benchtime="+times,
		fmt.Sprintf("-bench=^Benchmark%s$/^nodes=%d$", name, nodes), "./supervisor/sim")
	if err != nil {
		return nil, err
	}
	m := benchmarkMetrics(out)
	if len(m) == 0 {
		return nil, fmt.Errorf("benchmark %s of %d nodes says nothing: %s", name, nodes, out)
	}
	b.benchmarks[key] = m
	return m, nil
}

// benchmarkMetrics reads the line that a benchmark prints.
func benchmarkMetrics(out string) map[string]float64 {
	m := map[string]float64{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				m[fields[i+1]] = v
			}
		}
	}
	return m
}

func (b *bench) repositoryGo(ctx context.Context, env []string, args ...string) (string, error) {
	return b.command(ctx, env, "go", args...)
}

// command runs a program in the repository, with all that it starts, and gives
// what it printed; what it said beside that is in the error.
func (b *bench) command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	var out, said bytes.Buffer
	c.Dir, c.Stdout, c.Stderr = b.repository, &out, &said
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	if err := c.Run(); err != nil {
		text := strings.TrimSpace(said.String() + out.String())
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text[max(0, len(text)-2000):])
	}
	return out.String(), nil
}
