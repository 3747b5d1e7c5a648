package report

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/browser"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// The runs that are shown, by the names of their screenshots.
var (
	cluster = sync.OnceValue(func() report.Data { return newSample(1000, 30) })
	few     = sync.OnceValue(func() report.Data { return newSample(12, 20) })
	crowded = sync.OnceValue(newCrowded)
)

// newCrowded has more events than there is room for, long names and words without an end.
func newCrowded() report.Data {
	d := newSample(100, 10)
	d.Title = strings.Repeat("Supercalifragilistic", 8)
	d.Scenario = strings.Repeat("/a-directory-with-a-long-name", 5)
	d.Command = append(d.Command, strings.Repeat("x", 300))
	d.Figures.Messages, d.Figures.TraceHash = 123456789012345, strings.Repeat("0123456789abcdef", 8)
	for i := range 150 {
		at := sampleLong * time.Duration(i) / 150
		d.Marks = append(d.Marks, report.Mark{At: at, Until: at + time.Minute, Kind: report.MarkKind(i % 2), Text: strings.Repeat("word", 60), Where: "crowded.txt:1"})
	}
	for range 60 {
		d.Failures = append(d.Failures, report.Failure{At: sampleLong, Want: strings.Repeat("want ", 80), Got: strings.Repeat("got", 80)})
	}
	d.Expectations = 100
	for i := range d.Heat.Nodes {
		d.Heat.Nodes[i].Name = strings.Repeat("long-", 40) + d.Heat.Nodes[i].Name
	}
	d.Heat.Nodes = d.Heat.Nodes[:14]
	return d
}

// TestLayout looks for what hides or overlaps something else, in each run and on each screen.
//
//tier:real
func TestLayout(t *testing.T) {
	chromium := browser.New(t)
	for _, run := range []struct {
		name string
		data func() report.Data
	}{{"cluster", cluster}, {"few", few}, {"crowded", crowded}, {"nothing", func() report.Data { return report.Data{} }}} {
		for _, l := range []browser.Look{desk, night, tablet, phone, small} {
			t.Run(run.name+"-"+l.String(), func(t *testing.T) {
				p := open(t, chromium, run.data(), l)
				p.shoot(run.name + "-" + l.String())
				if wide := browser.Eval[float64](p.Tab, "document.documentElement.scrollWidth"); wide > float64(l.Width) {
					t.Errorf("the page is %v pixels wide on a screen of %d", wide, l.Width)
				}
				p.checkApart("main > :not(.pair), .pair > *")
				p.checkApart(".figures > div")
				p.checkApart(".keys li > *")
				p.checkApart(".heat > label, .scale > *")
				p.checkApart(".lanes .flag")
				if got := len(p.boxes(".lanes")); got > 1 {
					t.Errorf("%d layouts of the events are shown at once", got)
				}
				p.checkApart(".mark span")
				p.checkApart(".failures li p")
				p.checkApart(".events li p, .events li .flag")
				for _, section := range []string{"phases", "nodes", "starts"} {
					p.checkApart("#" + section + " .x span")
					p.checkApart("#" + section + " .y span")
					p.checkApart("#" + section + " .area, #" + section + " .lanes, #" + section + " .x, #" + section + " .y")
				}
				p.checkInside("section *:not(input, svg *, bdi)", ".events, .failures ol")
				p.checkWhole(".figures b, .figures small, .figures dt, .keys span, .badge, .mark span, h2, #starts .y span, #phases .y span")
				p.checkContrast()
			})
		}
	}
}

// checkApart sees that no two elements that are shown overlap.
func (p tab) checkApart(selector string) {
	p.t.Helper()
	all := p.boxes(selector)
	for i, a := range all {
		if a.W == 0 || a.H == 0 {
			p.t.Errorf("%s: %v has no size", selector, a)
		}
		for _, b := range all[i+1:] {
			if a.overlaps(b) {
				p.t.Errorf("%s: %v overlaps %v", selector, a, b)
			}
		}
	}
}

// checkInside sees that no element leaves the card that it is in, but for those that scroll.
func (p tab) checkInside(selector, scrolls string) {
	p.t.Helper()
	out := browser.Eval[[]string](p.Tab, fmt.Sprintf(`Array.from(document.querySelectorAll(%q))
		.filter(e => !e.closest(%q) && e.checkVisibility())
		.filter(e => { const a = e.getBoundingClientRect(), b = e.closest("section").getBoundingClientRect();
			return a.width > 0 && (a.left < b.left - .5 || a.right > b.right + .5 || a.top < b.top - .5 || a.bottom > b.bottom + .5); })
		.map(e => e.tagName + "." + e.className + " " + e.innerText)`, selector, ":is("+scrolls+") *"))
	check.None(p.t, out, "out of its card")
}

// checkWhole sees that texts are not cut.
func (p tab) checkWhole(selector string) {
	p.t.Helper()
	cut := browser.Eval[[]string](p.Tab, fmt.Sprintf(`Array.from(document.querySelectorAll(%q))
		.filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display != "inline").map(e => e.innerText)`, selector))
	check.None(p.t, cut, "cut texts")
}

// checkContrast sees that each text is readable on what is behind it: 4.5 as WCAG 2.2, 1.4.3, has it.
func (p tab) checkContrast() {
	p.t.Helper()
	pale := browser.Eval[[]string](p.Tab, `(() => {
		const parse = c => c.match(/[\d.]+/g).map(Number);
		const light = c => { const [r, g, b] = parse(c).slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
		const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; const v = parse(c); if (v.length < 4 || v[3] > 0) return c; } return "rgb(255,255,255)"; };
		const bad = new Set();
		for (const e of document.querySelectorAll("body *:not(svg *, script)")) {
			if (!Array.from(e.childNodes).some(n => n.nodeType == 3 && n.data.trim())) continue;
			const a = light(getComputedStyle(e).color), b = light(behind(e));
			const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
			if (ratio < 4.5) bad.add(e.tagName + "." + e.className + " " + ratio.toFixed(2));
		}
		return [...bad].sort();
	})()`)
	check.None(p.t, pale, "texts that are hard to read")
}

// TestFiguresAreShown reads the numbers as a user does, with and without scripts.
//
//tier:real
func TestFiguresAreShown(t *testing.T) {
	chromium := browser.New(t)
	d := few()
	for _, l := range []browser.Look{desk, {Scheme: "light", Width: 1280, Height: 900, NoScript: true}} {
		t.Run(l.String(), func(t *testing.T) {
			p := open(t, chromium, d, l)
			p.shoot("few-" + l.String())
			last := d.Phases[len(d.Phases)-1].Pods
			for selector, want := range map[string]string{
				"h1":                          d.Title,
				".badge":                      "1 of 6 expectations not met",
				"#figure-running b":           fmt.Sprint(d.Figures.PodsRunning),
				"#figure-running small":       "of 240 on 12 nodes",
				"#figure-restarts b":          fmt.Sprint(d.Figures.Restarts),
				"#figure-messages b":          "28,080",
				"#figure-speed b":             "14.6×",
				"#hash code":                  d.Figures.TraceHash,
				"#command code":               strings.Join(d.Command, " "),
				".keys [data-phase='0'] b":    fmt.Sprint(last[report.Ready]),
				"#failures .want":             d.Failures[0].Want,
				"#event-4":                    "4 the apiserver is away 5m 10s – 5m 45s fault rolling-update.txt:9",
				"#nodes .y span:nth-child(1)": "node-0001",
			} {
				check.Equal(t, p.Text(selector), want, "%s says", selector)
			}
			if buttons := len(p.boxes("#command button")); (buttons == 0) != l.NoScript {
				t.Errorf("%d buttons to copy the command, without scripts: %t", buttons, l.NoScript)
			}
		})
	}
}

// TestAreasHaveTheColoursOfTheirKeys compares pixels of the chart with those of the keys below it:
// at some times, in the middle of the band that the pods of a phase must take.
//
//tier:all pixels of a page that few changes touch; Layout and FiguresAreShown read it
func TestAreasHaveTheColoursOfTheirKeys(t *testing.T) {
	chromium := browser.New(t)
	for _, l := range []browser.Look{desk, night, phone, {Scheme: "dark", Width: 1280, Height: 900, NoScript: true}} {
		t.Run(l.String(), func(t *testing.T) {
			d := cluster()
			p := open(t, chromium, d, l)
			im := p.shoot("cluster-" + l.String())
			plot := p.box("#phases svg")
			const top = 30000 // pods at the upper end
			checked := map[report.Phase]bool{}
			for _, second := range []int{12, 70, 180, 200, 230, 360, 380, 450, 495, 560} {
				for ph, n := range d.Phases[second].Pods {
					x := plot.X + plot.W*(float64(second)+0.5)/sampleLong.Seconds()
					low, high := bandAround(d, second, report.Phase(ph))
					y := plot.Y + plot.H*(1-(low+high)/2/top)
					if tall := plot.H * (high - low) / top; tall < 3 || onGrid(plot, y) {
						continue
					}
					key := im.middle(p.box(fmt.Sprintf(".keys [data-phase='%d'] .swatch", ph)))
					if got := im.at(x, y); !alike(got, key) {
						t.Errorf("at %d s there are %d pods %v, and their area is %v; its key is %v", second, n, report.Phase(ph), got, key)
					}
					checked[report.Phase(ph)] = true
				}
			}
			for _, ph := range []report.Phase{report.Ready, report.NotReady, report.Creating, report.Pending, report.Terminating} {
				if !checked[ph] {
					t.Errorf("no pixel of %v was looked at", ph)
				}
			}
		})
	}
}

// bandAround is where on the scale of pods a phase is for all of five seconds before and after: the
// edges of what moves are blurred.
func bandAround(d report.Data, second int, phase report.Phase) (low, high float64) {
	high = math.Inf(1)
	for _, s := range d.Phases[second-5 : second+6] {
		below := 0
		for _, n := range s.Pods[:phase] {
			below += n
		}
		low, high = math.Max(low, float64(below)), math.Min(high, float64(below+s.Pods[phase]))
	}
	return low, high
}

// onGrid says whether one of the lines at each third is there.
func onGrid(plot box, y float64) bool {
	third := (y - plot.Y) / plot.H * 3
	return math.Abs(third-math.Round(third))*plot.H/3 < 2
}

// TestHeatMapHasTheColoursOfItsScale compares pixels of nodes with those of the scale above them, in
// each of the three modes. Scripts are not needed for that.
//
//tier:all pixels of a page that few changes touch; Layout and FiguresAreShown read it
func TestHeatMapHasTheColoursOfItsScale(t *testing.T) {
	chromium := browser.New(t)
	for _, l := range []browser.Look{night, {Scheme: "light", Width: 1280, Height: 900, NoScript: true}} {
		t.Run(l.String(), func(t *testing.T) {
			d := few()
			p := open(t, chromium, d, l)
			plot := p.box("#nodes svg")
			lostNode, other := 5, 2
			cell := func(im picture, node int, at time.Duration) any {
				return im.at(plot.X+plot.W*float64(at)/float64(sampleLong), plot.Y+plot.H*(float64(node)+0.4)/12)
			}
			same := func(what string, got, want any) {
				t.Helper()
				check.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "%s is %v, want %v", what, got, want)
			}
			im := p.shoot("few-" + l.String())
			same("a node that is down", cell(im, lostNode, 350*time.Second), im.middle(p.box(".scale .down")))
			same("a node with all pods ready", cell(im, other, 350*time.Second), im.middle(p.box(".scale.ready .r8")))
			check.None(t, p.boxes(".scale.starts, .scale.restarts"), "the scales of other modes are shown")

			most, at := uint32(0), [2]int{}
			for n, node := range d.Heat.Nodes {
				for c := 0; c+1 < len(node.Cells); c += 2 { // two columns are drawn as one
					if s := node.Cells[c].Starts + node.Cells[c+1].Starts; s > most {
						most, at = s, [2]int{n, c}
					}
				}
			}
			p.Do(chromedp.Click(chromedp.CSS("label[for=by-starts]")))
			im = p.shoot("few-" + l.String() + "-starts")
			check.Equal(t, p.Text(".scale.starts"), fmt.Sprintf("0 %d", most), "the scale")
			same("the cell with most starts", cell(im, at[0], time.Duration(at[1]+1)*d.Heat.Column), im.middle(p.box(".scale.starts .c6")))
			same("a cell without starts", cell(im, other, 450*time.Second), im.middle(p.box(".scale.starts .c0")))
			same("a node that is down", cell(im, lostNode, 350*time.Second), im.middle(p.box(".scale .down")))

			p.Do(chromedp.Click(chromedp.CSS("label[for=by-restarts]")))
			im = p.shoot("few-" + l.String() + "-restarts")
			same("a cell without restarts", cell(im, other, 100*time.Second), im.middle(p.box(".scale.restarts .c0")))
		})
	}
}

// TestBarsAreAsHighAsTheirNumbers measures bars of the histogram in pixels.
//
//tier:all pixels of a page that few changes touch; Layout and FiguresAreShown read it
func TestBarsAreAsHighAsTheirNumbers(t *testing.T) {
	d := few()
	p := open(t, browser.New(t), d, desk)
	im := p.shoot("few-" + desk.String())
	plot, top := p.box("#starts svg"), p.boxes("#starts .y span")
	var most float64
	check.Value(fmt.Sscan(top[len(top)-1].Name, &most))(t)
	bars := p.boxes("#starts rect")
	titles := browser.Eval[[]string](p.Tab, `Array.from(document.querySelectorAll("#starts rect title")).map(e => e.textContent)`)
	pods := 0
	for i, b := range bars {
		var n int
		check.Value(fmt.Sscanf(titles[i][strings.Index(titles[i], ": "):], ": %d", &n))(t)
		pods += n
		x, y := b.X+b.W/4, plot.Y+plot.H-1.5
		ink, tall := im.at(x, y), 0.0
		for ; y > plot.Y && alike(im.at(x, y), ink); y-- {
			tall++
		}
		if want := plot.H * float64(n) / most; want > 2 && math.Abs(tall-want) > 2 {
			t.Errorf("the bar %q is %v pixels high, want %v", titles[i], tall, want)
		}
	}
	check.Equal(t, pods, len(d.Starts), "the bars have %d pods, want %d", pods, len(d.Starts))
	marks := p.boxes(".mark")
	if !sort.SliceIsSorted(marks, func(i, j int) bool { return marks[i].X < marks[j].X }) || len(marks) != 3 {
		t.Errorf("the percentiles are at %v", marks)
	}
}

// TestCrossHair moves the mouse over the chart: the keys have the numbers of that time, and the line
// is at the same time in both plots.
//
//tier:all pixels of a page that few changes touch; Layout and FiguresAreShown read it
func TestCrossHair(t *testing.T) {
	d := few()
	p := open(t, browser.New(t), d, desk)
	atEnd := p.Text(".keys")
	plot := p.box("#phases svg")
	p.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, plot.X+plot.W*0.3501, plot.Y+20-browser.Eval[float64](p.Tab, "scrollY")))
	if y := plot.Y + 20; y > 900 {
		t.Fatalf("the chart is at %v, below the screen", y)
	}
	check.Equal(t, p.Text("#when"), "At 3m 30s", "the keys")
	for ph, n := range d.Phases[210].Pods {
		selector := fmt.Sprintf(".keys [data-phase='%d'] b", ph)
		if len(p.boxes(selector)) == 0 {
			continue
		}
		var got float64
		check.Value(fmt.Sscan(p.Text(selector), &got))(t)
		// A bin is the mean of 1.25 s, and pods move within a second.
		check.AtMost(t, math.Abs(got-float64(n)), 4, "%v: %v pods at 3m 30s, want about %d", report.Phase(ph), got, n)
	}
	lines := p.boxes(".cursor")
	if len(lines) != 2 || math.Abs(lines[0].X-lines[1].X) > 0.5 {
		t.Errorf("the lines are %v: want two at one time", lines)
	}
	p.shoot("few-" + desk.String() + "-crosshair")
	p.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 5, 5))
	if got := p.Text(".keys"); got != atEnd || p.Text("#when") != "At the end" || len(p.boxes(".cursor")) > 0 {
		t.Errorf("when the mouse is gone the keys are %q, want %q", got, atEnd)
	}
}

// TestFlagLeadsToItsEvent clicks a flag over the chart.
//
//tier:all pixels of a page that few changes touch; Layout and FiguresAreShown read it
func TestFlagLeadsToItsEvent(t *testing.T) {
	p := open(t, browser.New(t), few(), desk)
	p.Do(chromedp.Click(chromedp.CSS(".lanes.wide .flag[href='#event-4']")))
	b := p.box("#event-4:target")
	from := browser.Eval[float64](p.Tab, "scrollY")
	if b.Y < from || b.Y+b.H > from+float64(desk.Height) {
		t.Errorf("the event is %v, and the screen begins at %v", b, from)
	}
}

// TestNamesDoNothing opens a report in which every text tries to run a script.
//
//tier:all pixels of a page that few changes touch; Layout and FiguresAreShown read it
func TestNamesDoNothing(t *testing.T) {
	const evil = `</title></style></script><script>document.title="owned"</script><img src=x onerror='document.title="owned"'>`
	d := few()
	d.Title, d.Scenario, d.Version, d.Command, d.Figures.TraceHash = evil, evil, evil, []string{evil}, evil
	d.Marks = []report.Mark{{At: 0, Text: evil, Where: evil}}
	d.Failures = []report.Failure{{Want: evil, Got: evil, Where: evil}}
	nodes := append([]report.NodeHeat(nil), d.Heat.Nodes...)
	nodes[0].Name = evil
	d.Heat.Nodes = nodes
	p := open(t, browser.New(t), d, desk)
	check.Equal(t, p.Text("h1"), evil, "the title")
	if got := browser.Eval[string](p.Tab, "document.title"); !strings.HasPrefix(got, evil) {
		t.Errorf("the tab is called %q", got)
	}
	if n := browser.Eval[int](p.Tab, "document.images.length + document.scripts.length"); n != 2 {
		t.Errorf("%d images and scripts, want the two scripts of the page", n)
	}
}

// TestPolicyHolds sees that the page would not run a script or load a file even if a text became an
// element.
//
//tier:all pixels of a page that few changes touch; Layout and FiguresAreShown read it
func TestPolicyHolds(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	p := open(t, browser.New(t), few(), desk)
	browser.Eval[bool](p.Tab, fmt.Sprintf(`(() => {
		const s = document.createElement("script"); s.textContent = "document.title = 'owned'"; document.body.append(s);
		const i = document.createElement("img"); i.src = %q; document.body.append(i);
		return true;
	})()`, server.URL))
	check.Fatal(t, lab.Eventually(t.Context(), browser.Patience/2, "the browser says that the policy forbids both", func() error {
		said := p.Complaints()
		return check.That(forbidden(said) >= 2, "it said %q", said)
	}))
	check.Count(t, asked.Load(), 0, "an image was loaded %d times")
	if got := browser.Eval[string](p.Tab, "document.title"); got == "owned" {
		t.Error("a script that is not the page's was run")
	}
	p.Forgive() // the browser tells of the request that it did not make
}

// forbidden is how often the browser said that it kept to the policy of the page.
func forbidden(complaints []string) (n int) {
	for _, c := range complaints {
		if strings.Contains(c, "Content Security Policy") {
			n++
		}
	}
	return n
}
