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
	"testing"

	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/browser"
)

var (
	desk  = browser.Look{Scheme: "light", Width: 1280, Height: 900}
	night = browser.Look{Scheme: "dark", Width: 1280, Height: 900}
	// tablet is the narrowest screen with the layout of a desk.
	tablet = browser.Look{Scheme: "light", Width: 861, Height: 1100}
	phone  = browser.Look{Scheme: "light", Width: 390, Height: 844, Phone: true}
	small  = browser.Look{Scheme: "dark", Width: 320, Height: 640, Phone: true}
)

// tab shows one report.
type tab struct {
	*browser.Tab
	t *testing.T
}

// open writes a report and shows it.
func open(t *testing.T, chromium context.Context, d report.Data, l browser.Look) tab {
	t.Helper()
	var page bytes.Buffer
	check.Fatal(t, report.Write(&page, d))
	file := filepath.Join(t.TempDir(), "report.html")
	check.Fatal(t, os.WriteFile(file, page.Bytes(), 0o644))
	return tab{browser.Open(t, chromium, (&url.URL{Scheme: "file", Path: file}).String(), l), t}
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
func (p tab) boxes(selector string) []box {
	p.t.Helper()
	return browser.Eval[[]box](p.Tab, fmt.Sprintf(`Array.from(document.querySelectorAll(%q))
		.filter(e => e.checkVisibility({opacityProperty: true, visibilityProperty: true}))
		.map(e => { const r = e.getBoundingClientRect(); return {
			name: (e.innerText || e.id || e.getAttribute("class") || e.tagName).slice(0, 60), x: r.x + scrollX, y: r.y + scrollY, w: r.width, h: r.height }; })`, selector))
}

func (p tab) box(selector string) box {
	p.t.Helper()
	all := p.boxes(selector)
	check.Fatal(p.t, check.Is(len(all), 1, "%d elements are shown for %s, want one", len(all), selector))
	return all[0]
}

// picture is a screenshot of a whole page.
type picture struct{ image.Image }

// shoot makes a screenshot, and keeps it for people to look at.
func (p tab) shoot(name string) picture {
	p.t.Helper()
	im := check.Value(png.Decode(bytes.NewReader(p.Shoot(name))))(p.t)
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
