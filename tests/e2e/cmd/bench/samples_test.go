package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

//tier:unit
func TestQuantile(t *testing.T) {
	s := samples{40, 10, 30, 20}
	for _, c := range []struct {
		q    float64
		want time.Duration
	}{{0, 10}, {0.5, 25}, {1, 40}, {0.25, 17}} {
		check.Equal(t, s.quantile(c.q), c.want, "quantile %v of %v", c.q, s)
	}
	check.Equal(t, s[0], 40, "the samples were sorted in place")
	check.Equal(t, (samples{}).median(), 0, "the median of nothing")
	check.Equal(t, (samples{7}).quantile(0.9), 7, "a quantile of one sample")
}

//tier:unit
func TestParse(t *testing.T) {
	for _, c := range []struct {
		args []string
		out  string
		ok   bool
	}{
		{nil, "docs/benchmarks.md", true},
		{[]string{"--rows", "one,idle"}, "docs/benchmarks.md", true},
		{[]string{"--quick"}, "", true},
		{[]string{"--quick", "--out", "x.md"}, "x.md", true},
		{[]string{"--rows", "one,two"}, "", false},
		{[]string{"--samples", "0"}, "", false},
		{[]string{"--release", "3"}, "", false},
		{[]string{"more"}, "", false},
		{[]string{"--hostile-faults", "NodeStageVolume,NodeGetInfo:late", "--hostile-rounds", "2"}, "docs/benchmarks.md", true},
		{[]string{"--hostile-faults", "NodeStageVolume:never"}, "", false},
		{[]string{"--hostile-pods", "0"}, "", false},
	} {
		o, err := parse(c.args)
		if (err == nil) != c.ok || err == nil && o.out != c.out {
			t.Errorf("%v: out %q, %v", c.args, o.out, err)
		}
	}
}

//tier:unit
func TestHostileFaults(t *testing.T) {
	for list, want := range map[string]string{
		"":                                       "21: NodeStageVolume:fails … NodeGetInfo:late",
		"NodeStageVolume":                        "3: NodeStageVolume:fails … NodeStageVolume:late",
		"hangs":                                  "7: NodeStageVolume:hangs … NodeGetInfo:hangs",
		"NodeGetInfo:late,NodeStageVolume:fails": "2: NodeStageVolume:fails … NodeGetInfo:late",
		"NodeGetInfo:never":                      "",
	} {
		h := hostileOptions{rounds: 2}
		got := ""
		if err := h.choose(list); err == nil {
			got = fmt.Sprintf("%d: %s … %s", len(h.faults), h.faults[0], h.faults[len(h.faults)-1])
			o := options{hostile: h}
			if all := o.hostileTurns(); len(all) != 2*len(h.faults) {
				t.Errorf("%q: %d turns in two rounds of %d faults", list, len(all), len(h.faults))
			}
		}
		check.Equal(t, got, want, "--hostile-faults %q", list)
	}
}

// TestDocumentKeepsWhatWasNotMeasured: also sections that this program does not know, at the end.
//
//tier:unit
func TestDocumentKeepsWhatWasNotMeasured(t *testing.T) {
	const others = "\n## Greedy pods\n\nby hand\n\n### Memory\n\nmore\n\n## Strangers\n\nby hand, too\n"
	alone, cluster := sections[0].title, sections[1].title
	first := document("", map[string]string{alone: "## " + alone + "\n\none\n", cluster: "## " + cluster + "\n\ntwo\n"}) + others
	second := document(first, map[string]string{cluster: "## " + cluster + "\n\nthree\n"})
	want := preamble + "\n## " + alone + "\n\none\n\n## " + cluster + "\n\nthree\n" + others
	check.Equal(t, second, want, "got")
}

// TestLostRound: what a table says of a round that failed is one line.
//
//tier:unit
func TestLostRound(t *testing.T) {
	for ours, wrong := range map[bool]int{true: 1, false: 0} {
		b := &bench{}
		got := b.lost(ours, "round 2", errors.New("troupe: pod x is Pending; the end of its log:\nmuch\nmore"))
		if got != "round 2 failed, and does not count: troupe: pod x is Pending" || len(b.wrong) != wrong {
			t.Errorf("%q, wrong: %q", got, b.wrong)
		}
	}
}

// TestHostileResults: pods beside the hostile driver are compared with those beside the healthy one, and what people choose
// is said.
//
//tier:unit
func TestHostileResults(t *testing.T) {
	b := &bench{options: options{hostile: hostileOptions{pods: 3}}}
	check.Fatal(t, b.hostile.choose("NodeStageVolume"))
	var turns []hostileTurn
	for _, f := range b.hostile.faults {
		turns = append(turns, hostileTurn{
			fault: f, calls: 1, healthy: hostileRound{samples{100, 100}, samples{100, 100}}, amiss: hostileRound{samples{105}, samples{120}},
		})
	}
	lines := b.hostileResults(turns)
	if len(lines) != 2 || lines[0].verdict != verdict(true) || lines[1].verdict != verdict(false) || lines[1].ratio != "1.20 ×" {
		t.Errorf("%+v", lines)
	}
	for _, l := range lines {
		if l.section != volumes || !strings.HasPrefix(l.what, "calls of a CSI driver have 3 faults in turns: 3 pods") {
			t.Errorf("section %d, %q", l.section, l.what)
		}
	}
	check.Equal(t, len(lines[0].details), 3+len(turns), "details: %q", lines[0].details)
}
