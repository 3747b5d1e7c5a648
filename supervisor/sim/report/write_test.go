package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

func written(t *testing.T, d Data) []byte {
	t.Helper()
	var b bytes.Buffer
	check.Fatal(t, Write(&b, d))
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ"} { // the last is what a template makes of what it holds for unsafe
		if bytes.Contains(b.Bytes(), []byte(bad)) {
			t.Errorf("the page has %s in it", bad)
		}
	}
	return b.Bytes()
}

// TestAnyValidDataIsDrawn is about the edges: no time, one look, all at one moment, nothing at all.
func TestAnyValidDataIsDrawn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := Data{Duration: time.Duration(rapid.SampledFrom([]int64{0, 1, 999, 1e9, 86400e9, int64(longest)}).Draw(rt, "duration"))}
		count := rapid.IntRange(0, 3)
		when := func() time.Duration {
			return time.Duration(rapid.SampledFrom([]int64{0, int64(d.Duration / 2), int64(d.Duration)}).Draw(rt, "at"))
		}
		for range count.Draw(rt, "looks") {
			d.Phases = append(d.Phases, PhaseSample{At: when(), Pods: PhaseCounts{Ready: count.Draw(rt, "ready"), Failed: count.Draw(rt, "failed")}})
		}
		slices.SortFunc(d.Phases, func(a, b PhaseSample) int { return cmp.Compare(a.At, b.At) })
		for range count.Draw(rt, "starts") {
			took := rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, time.Minute, longest}).Draw(rt, "took")
			d.Starts = append(d.Starts, Latency{took, count.Draw(rt, "pods")})
		}
		d.Heat.Column = max(1, d.Duration/2)
		for range count.Draw(rt, "nodes") {
			cells := make([]Cell, min(count.Draw(rt, "cells"), 1+int(d.Duration/d.Heat.Column)))
			for i := range cells {
				cells[i] = Cell{Looks: uint32(count.Draw(rt, "looks")), Pods: 3, Ready: uint64(count.Draw(rt, "ready")), Starts: uint32(count.Draw(rt, "starts"))}
			}
			d.Heat.Nodes = append(d.Heat.Nodes, NodeHeat{Cells: cells})
		}
		for range count.Draw(rt, "marks") {
			at := when()
			d.Marks = append(d.Marks, Mark{At: at, Until: at + when()})
		}
		check.Fatal(rt, d.Validate())
		written(t, d)
	})
}

// tree is a parsed page.
type tree struct{ *html.Node }

func parsed(t *testing.T, d Data) tree {
	t.Helper()
	root := check.Value(html.Parse(bytes.NewReader(written(t, d))))(t)
	return tree{root}
}

// all are the elements for which match is true.
func (n tree) all(match func(tree) bool) []tree {
	var found []tree
	for c := range n.Descendants() {
		if e := (tree{c}); c.Type == html.ElementNode && match(e) {
			found = append(found, e)
		}
	}
	return found
}

func (n tree) tags(name string) []tree {
	return n.all(func(e tree) bool { return e.Data == name })
}

func (n tree) class(name string) []tree {
	return n.all(func(e tree) bool {
		return strings.Contains(" "+e.attr("class")+" ", " "+name+" ")
	})
}

func (n tree) id(t *testing.T, id string) tree {
	t.Helper()
	found := n.all(func(e tree) bool { return e.attr("id") == id })
	check.Fatal(t, check.Is(len(found), 1, "%d elements have the id %q, want one", len(found), id))
	return found[0]
}

func (n tree) attr(name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func (n tree) number(t *testing.T, attr string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(n.attr(attr), 64)
	if err != nil {
		t.Fatalf("attribute %s of <%s>: %v", attr, n.Data, err)
	}
	return x
}

// text of an element, with one space between words.
func (n tree) text() string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func TestFigures(t *testing.T) {
	page := parsed(t, small())
	for id, want := range map[string]string{
		"figure-running":  "Pods running 8 of 10 on 2 nodes",
		"figure-p50":      "Start p50 1 s half of the pods",
		"figure-p90":      "Start p90 3 s 9 of 10 pods",
		"figure-p99":      "Start p99 4 s 99 of 100 pods",
		"figure-restarts": "Container restarts 3 0.3 per pod",
		"figure-messages": "Messages 1,234,567 4,938,268 per s",
		"figure-speed":    "Speed 240× 1m simulated in 250 ms",
		"figure-heap":     "Heap 3.00 MiB 307 KiB per pod",
		"hash":            "Trace hash 9f86d081884c7d65",
		"command":         "Run it again troupe sim --nodes 2 --seed 7",
		"failures":        "Expectations not met 10 pods ready within 50s There was: 8 ready 50s small.txt:5",
		"event-2":         "2 apiserver gone 20s – 40s fault small.txt:4",
		"mark-p90":        "p90 3 s",
	} {
		check.Equal(t, page.id(t, id).text(), want, "%s", id)
	}
	header := page.tags("header")[0].text()
	if want := "troupe sim Two nodes 1 of 2 expectations not met small.txt seed 7 2 nodes 10 pods 1m simulated"; header != want {
		t.Errorf("the header is %q, want %q", header, want)
	}
}

func TestHeaderSaysHowItEnded(t *testing.T) {
	for _, c := range []struct {
		mutate func(*Data)
		want   string
	}{
		{func(d *Data) { d.Failures = nil }, "all of 2 expectations met"},
		{func(d *Data) { d.Failures, d.Expectations = nil, 0 }, ""},
		{func(d *Data) { d.Failures, d.Interrupted = nil, true }, "interrupted after 1m 00s"},
		{func(d *Data) { d.Interrupted = true }, "1 of 2 expectations not met; interrupted after 1m 00s"},
	} {
		d := small()
		c.mutate(&d)
		var got []string
		for _, b := range parsed(t, d).class("badge") {
			got = append(got, b.text())
		}
		check.Equal(t, strings.Join(got, "; "), c.want, "badges %q", got)
	}
}

// outlineAt is how high a path drawn by outline is at x.
func outlineAt(t *testing.T, path string, x int) int {
	t.Helper()
	var at, y int
	if _, err := fmt.Sscanf(path, "M%d %d", &at, &y); err != nil {
		t.Fatalf("path %.40q: %v", path, err)
	}
	for _, step := range strings.Split(path, "H")[1:] {
		var to, next int
		if _, err := fmt.Sscanf(step, "%dV%d", &to, &next); err != nil {
			t.Fatalf("path %.40q: %v", path, err)
		}
		if x < to {
			break
		}
		at, y = to, next
	}
	return y
}

// TestAreas reads numbers of pods back from the drawing.
func TestAreas(t *testing.T) {
	d := small()
	page := parsed(t, d)
	top := 10.0 // of the axis: ten pods at most
	paths := page.id(t, "phases").tags("path")
	check.Fatal(t, check.Is(len(paths), 4, "%d areas, want those of the four phases that pods were in", len(paths)))
	for _, at := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 59 * time.Second} {
		x := int(drawWide * at / d.Duration)
		look := d.Phases[0]
		for _, s := range d.Phases {
			if s.At <= at {
				look = s
			}
		}
		for _, path := range paths {
			p := check.Value(strconv.Atoi(strings.TrimPrefix(path.attr("class"), "p")))(t)
			want := 0
			for q := Ready; q <= Phase(p); q++ {
				want += look.Pods[q]
			}
			if got := top * float64(drawTall-outlineAt(t, path.attr("d"), x)) / drawTall; math.Abs(got-float64(want)) > 0.01 {
				t.Errorf("at %v the top of %v is at %v pods, want %d", at, Phase(p), got, want)
			}
		}
	}
	keys := page.class("keys")[0].text()
	check.Equal(t, keys, "Ready 8 peak 8 Creating 0 peak 6 Pending 0 peak 10 Failed 2 peak 2", "the keys")
}

func TestHeatCells(t *testing.T) {
	page := parsed(t, small()).id(t, "nodes")
	type cell struct{ class, title string }
	want := map[string]cell{
		"0 0": {"r3 s6", "node-1 0s – 30s 40 % ready of 5 pods a node, 4 starts"},
		"1 0": {"r8 s3 x6", "node-1 30s – 1m 00s 100 % ready of 5 pods a node, 1 start, 3 restarts"},
		"0 1": {"r0", "node-2 0s – 30s 0 % ready of 5 pods a node"},
		"1 1": {"down s6", "node-2 30s – 1m 00s 60 % ready of 5 pods a node, 3 starts, down 50 % of the time"},
	}
	for _, rect := range page.tags("rect") {
		at := rect.attr("x") + " " + rect.attr("y")
		check.Equal(t, (cell{rect.attr("class"), rect.text()}), want[at], "the cell at %s", at)
		delete(want, at)
	}
	check.AtMost(t, len(want), 0, "cells are missing: %q", want)
	check.Count(t, page.class("y")[0].text(), "node-1 node-2", "beside the rows is %q, want the names of the nodes")
}

// TestHeatOfManyNodes has a node in every forty down, and one that is there for half of the time.
func TestHeatOfManyNodes(t *testing.T) {
	d := Data{Duration: time.Hour, Heat: Heat{Column: time.Minute}}
	for i := range 5 * maxRows {
		n := NodeHeat{Name: fmt.Sprintf("n-%03d", i), Cells: make([]Cell, 60)}
		for c := range n.Cells {
			n.Cells[c] = Cell{Looks: 1, Pods: 2, Ready: 2}
			if i%40 == 0 {
				n.Cells[c] = Cell{Looks: 1, Down: 1, Pods: 2}
			}
		}
		d.Heat.Nodes = append(d.Heat.Nodes, n)
	}
	for i := 5; i < 10; i++ { // the nodes of the second row
		d.Heat.Nodes[i].Cells = d.Heat.Nodes[i].Cells[:30]
	}
	page := parsed(t, d).id(t, "nodes")
	parts := page.class("part")
	if len(parts) != maxRows/8 || parts[0].attr("height") != "0.2" || parts[1].attr("y") != "8.8" {
		t.Errorf("%d parts of cells are down, want %d of a fifth of the height", len(parts), maxRows/8)
	}
	rows := page.tags("svg")[0].class("r8")
	check.Equal(t, len(rows), maxRows-maxRows/8, "%d rows are all ready, want %d", len(rows), maxRows-maxRows/8)
	check.Equal(t, rows[0].text(), "n-005 to n-009 (5 nodes) 0s – 30m 00s 100 % ready of 2 pods a node", "row 2")
	check.Count(t, rows[0].attr("width"), "30", "nodes that were removed half way have a row of %s columns")
	check.Equal(t, page.class("y")[0].text(), "#1 #41 #81 #121 #161 #201", "beside the rows")
	check.Equal(t, page.class("note")[0].text(), "A cell is 5 nodes × 1m.", "the note")
}

func TestHistogramBars(t *testing.T) {
	d := small()
	page := parsed(t, d).id(t, "starts")
	pods := 0
	for _, rect := range page.tags("rect") {
		title := rect.text() // 1 s – 1.1 s: 5 pods
		var n int
		if _, err := fmt.Sscanf(title[strings.Index(title, ": "):], ": %d", &n); err != nil {
			t.Fatalf("%q: %v", title, err)
		}
		pods += n
		// The axis goes to five pods.
		if h := rect.number(t, "height"); math.Abs(h-drawTall*float64(n)/5) > 0.01 || math.Abs(h+rect.number(t, "y")-drawTall) > 0.01 {
			t.Errorf("the bar %q is %v high and begins at %s", title, h, rect.attr("y"))
		}
	}
	check.Equal(t, pods, 8, "%d pods in the bars, want 8", pods)
	// The axis is linear, from 0 to 4.2 s.
	for id, took := range map[string]time.Duration{"mark-p50": d.Figures.StartP50, "mark-p90": d.Figures.StartP90, "mark-p99": d.Figures.StartP99} {
		style := page.id(t, id).attr("style")
		var at float64
		if _, err := fmt.Sscanf(style, "left:%f%%", &at); err != nil {
			t.Fatalf("%q: %v", style, err)
		}
		if want := 100 * took.Seconds() / 4.2; math.Abs(at-want) > 0.01 {
			t.Errorf("%s is at %v %%, want %v %%", id, at, want)
		}
	}
}

func TestNothingToShow(t *testing.T) {
	page := parsed(t, Data{})
	check.Count(t, len(page.class("nothing")), 4, "%d of the four charts and lists say that there is nothing")
	check.Equal(t, page.tags("h1")[0].text(), "Simulation", "the title")
	check.Count(t, len(page.tags("rect"))+len(page.tags("path")), 0, "%d shapes are drawn of nothing")
}

const evil = `</title></style></script><script>alert(1)</script><img src=x onerror=alert(2)>"'&{{.}}`

// hostile is a run in which every text is evil.
func hostile() Data {
	d := small()
	d.Title, d.Scenario, d.Version, d.Figures.TraceHash = evil, evil, evil, evil
	d.Command = []string{"troupe", evil}
	d.Heat.Nodes[0].Name = evil
	d.Marks[0].Text, d.Marks[0].Where = evil, evil
	d.Failures[0].Want, d.Failures[0].Got, d.Failures[0].Where = evil, evil, evil
	return d
}

func TestNamesAreTextAlone(t *testing.T) {
	elements := func(page tree) (names []string) {
		for _, e := range page.all(func(tree) bool { return true }) {
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Key, "on") {
					t.Errorf("<%s %s=%q>", e.Data, a.Key, a.Val)
				}
			}
			names = append(names, e.Data)
		}
		return names
	}
	page := parsed(t, hostile())
	if got, want := elements(page), elements(parsed(t, small())); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("names became elements: %v, want %v", got, want)
	}
	check.Equal(t, page.tags("h1")[0].text(), evil, "the title")
}

func TestOneFile(t *testing.T) {
	d := small()
	text := string(written(t, d))
	page := parsed(t, d)
	for _, e := range page.all(func(tree) bool { return true }) {
		for _, a := range e.Attr {
			inside := strings.HasPrefix(a.Val, "#") || a.Val == "data:,"
			if (a.Key == "src" || a.Key == "href" || a.Key == "srcset" || a.Key == "action") && !inside {
				t.Errorf("<%s %s=%q> asks for another file", e.Data, a.Key, a.Val)
			}
		}
	}
	for _, s := range []string{"http:", "https:", "url(", "@import"} {
		if strings.Contains(text, s) {
			t.Errorf("the page has %q in it", s)
		}
	}
	scripts := page.tags("script")
	hash := sha256.Sum256([]byte(scripts[len(scripts)-1].FirstChild.Data))
	policy := page.tags("meta")[1].attr("content")
	if want := "script-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"; !strings.Contains(policy, want) {
		t.Errorf("the policy is %q, and the script has %s", policy, want)
	}
}

func TestSameDataSameBytes(t *testing.T) {
	if !bytes.Equal(written(t, small()), written(t, small())) {
		t.Error("two reports of the same run differ")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteErrors(t *testing.T) {
	check.Says(t, Write(broken{}, small()), "disk full", "got, want the writer's error")
	var b bytes.Buffer
	d := small()
	d.Duration = -1
	if err := Write(&b, d); err == nil || b.Len() > 0 {
		t.Errorf("got %v and %d bytes, want an error and nothing written", err, b.Len())
	}
}

// noise is as much as there can be, without two cells that are alike and with the worst of names.
func noise(nodes, columns int) Data {
	r := rand.New(rand.NewPCG(1, 2))
	d := Data{Title: "Noise", Duration: 24 * time.Hour, Heat: Heat{Column: 24 * time.Hour / time.Duration(columns)}}
	bad := strings.Repeat(`"`, 253)
	for range nodes {
		n := NodeHeat{Name: bad, Cells: make([]Cell, columns)}
		for i := range n.Cells {
			n.Cells[i] = Cell{Looks: 10, Down: r.Uint32N(6), Pods: 1000, Ready: r.Uint64N(1000), Starts: r.Uint32(), Restarts: r.Uint32()}
			if i < columns/2 {
				n.Cells[i].Ready = 0
			}
		}
		d.Heat.Nodes = append(d.Heat.Nodes, n)
	}
	for at := time.Duration(0); at < d.Duration; at += time.Second {
		s := PhaseSample{At: at}
		for p := range s.Pods {
			s.Pods[p] = r.IntN(150000)
		}
		d.Phases = append(d.Phases, s)
	}
	for range 150000 {
		d.Starts = append(d.Starts, Latency{time.Duration(r.ExpFloat64() * float64(time.Minute)), 1})
	}
	text := strings.Repeat(`"`, 2000)
	for range 1000 {
		at := time.Duration(r.Int64N(int64(d.Duration)))
		d.Marks = append(d.Marks, Mark{At: at, Until: d.Duration, Text: text, Where: text})
		d.Failures = append(d.Failures, Failure{At: at, Want: text, Got: text, Where: text})
	}
	d.Title, d.Scenario, d.Version, d.Command = text, text, text, []string{text}
	return d
}

func TestSizeIsBounded(t *testing.T) {
	const most = 2 << 20
	for _, c := range []struct{ nodes, columns int }{{5000, 288}, {maxRows, maxColumns}, {3, 8640}} {
		began := time.Now()
		n := len(written(t, noise(c.nodes, c.columns)))
		t.Logf("%d nodes × %d columns: %d bytes, made and written in %v", c.nodes, c.columns, n, time.Since(began))
		check.AtMost(t, n, most, "the report of %d nodes is %d bytes", c.nodes, n)
	}
}
