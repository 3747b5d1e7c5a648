package report

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// patience is for a browser on a busy machine. Nothing here is a measurement.
const patience = 2 * time.Minute

// look is how a page is looked at.
type look struct {
	scheme        string // "light" or "dark"
	width, height int64
	phone         bool
	noScript      bool
}

var (
	desk  = look{scheme: "light", width: 1280, height: 900}
	night = look{scheme: "dark", width: 1280, height: 900}
	// tablet is the narrowest screen with the layout of a desk.
	tablet = look{scheme: "light", width: 861, height: 1100}
	phone  = look{scheme: "light", width: 390, height: 844, phone: true}
	small  = look{scheme: "dark", width: 320, height: 640, phone: true}
)

func (l look) String() string {
	s := fmt.Sprintf("%s-%d", l.scheme, l.width)
	if l.noScript {
		s += "-noscript"
	}
	return s
}

// tab shows one report.
type tab struct {
	t    *testing.T
	ctx  context.Context
	file string
	url  string

	mu       sync.Mutex
	requests []string
	errors   []string
	more     chan struct{} // has a value when there is more of them
}

// open writes a report and shows it. At the end of the test the tab must have no errors in its
// console, and have asked for nothing but the file.
func open(t *testing.T, chromium context.Context, d report.Data, l look) *tab {
	t.Helper()
	var page bytes.Buffer
	if err := report.Write(&page, d); err != nil {
		t.Fatal(err)
	}
	p := &tab{t: t, file: filepath.Join(t.TempDir(), "report.html"), more: make(chan struct{}, 1)}
	p.url = (&url.URL{Scheme: "file", Path: p.file}).String()
	if err := os.WriteFile(p.file, page.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(chromium)
	t.Cleanup(cancel)
	p.ctx, cancel = context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	if err := chromedp.Listen(p.ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.quiet)

	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatal(err)
	}
	script := emulation.SetScriptExecutionDisabledParams{Value: l.noScript}
	if _, err := chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, script); err != nil {
		t.Fatal(err)
	}
	var options []chromedp.EmulateViewportOption
	if l.phone {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	p.do(chromedp.EmulateViewport(l.width, l.height, options...), chromedp.Navigate(p.url))
	return p
}

// hear keeps what the browser says of the page.
func (p *tab) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *log.EventEntryAdded:
		p.errors = append(p.errors, e.Entry.Text)
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		p.errors = append(p.errors, fmt.Sprintf("console.%s was called", e.Type))
	default:
		return
	}
	select {
	case p.more <- struct{}{}:
	default:
	}
}

func (p *tab) quiet() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.errors) > 0 {
		p.t.Errorf("the browser complains: %q", p.errors)
	}
	if len(p.requests) == 0 {
		p.t.Error("the browser asked for nothing, not even for the page: nobody listened")
	}
	for _, r := range p.requests {
		if r != p.url && !strings.HasPrefix(r, p.url+"#") && !strings.HasPrefix(r, "data:") {
			p.t.Errorf("the page asked for %s", r)
		}
	}
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// eval is the value of a JavaScript expression.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text is what an element says, as it is shown.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return strings.Join(strings.Fields(eval[string](p, fmt.Sprintf("document.querySelector(%q).innerText", selector))), " ")
}

// box is a rectangle on the page, in CSS pixels.
type box struct {
	Name string  `json:"name"`
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	W    float64 `json:"w"`
	H    float64 `json:"h"`
}

func (b box) String() string {
	return fmt.Sprintf("%q at %.0f,%.0f %.0f×%.0f", b.Name, b.X, b.Y, b.W, b.H)
}

func (b box) overlaps(o box) bool {
	const touch = 0.5
	return b.X+b.W > o.X+touch && o.X+o.W > b.X+touch && b.Y+b.H > o.Y+touch && o.Y+o.H > b.Y+touch
}

// boxes are those of the elements that are shown, in the order of the page.
func (p *tab) boxes(selector string) []box {
	p.t.Helper()
	return eval[[]box](p, fmt.Sprintf(`Array.from(document.querySelectorAll(%q))
		.filter(e => e.checkVisibility({opacityProperty: true, visibilityProperty: true}))
		.map(e => { const r = e.getBoundingClientRect(); return {
			name: (e.innerText || e.id || e.getAttribute("class") || e.tagName).slice(0, 60), x: r.x + scrollX, y: r.y + scrollY, w: r.width, h: r.height }; })`, selector))
}

func (p *tab) box(selector string) box {
	p.t.Helper()
	all := p.boxes(selector)
	if len(all) != 1 {
		p.t.Fatalf("%d elements are shown for %s, want one", len(all), selector)
	}
	return all[0]
}

// picture is a screenshot of a whole page.
type picture struct{ image.Image }

// shoot makes a screenshot, and keeps it below .run for people to look at.
func (p *tab) shoot(name string) picture {
	p.t.Helper()
	file, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	root, err := lab.Repository()
	if err != nil {
		p.t.Fatal(err)
	}
	dir := filepath.Join(root, ".run", "report")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), file, 0o644); err != nil {
		p.t.Fatal(err)
	}
	im, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		p.t.Fatal(err)
	}
	return picture{im}
}

func (im picture) at(x, y float64) color.NRGBA {
	return color.NRGBAModel.Convert(im.At(int(x), int(y))).(color.NRGBA)
}

// middle is the colour in the middle of a box.
func (im picture) middle(b box) color.NRGBA { return im.at(b.X+b.W/2, b.Y+b.H/2) }

// alike says whether two colours can't be told apart.
func alike(a, b color.NRGBA) bool {
	near := func(x, y uint8) bool { return max(x, y)-min(x, y) <= 3 }
	return near(a.R, b.R) && near(a.G, b.G) && near(a.B, b.B)
}
