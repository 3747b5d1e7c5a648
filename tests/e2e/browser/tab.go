package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// Patience is for a browser on a busy machine. Nothing here is a measurement.
const Patience = 2 * time.Minute

// Look is how a page is looked at. Scheme is light or dark. A phone is touched, and
// shows pages as it sees fit.
type Look struct {
	Scheme          string
	Width, Height   int64
	Phone, NoScript bool
}

// String is for names of tests and of screenshots.
func (l Look) String() string {
	s := fmt.Sprintf("%s-%d", l.Scheme, l.Width)
	if l.NoScript {
		s += "-noscript"
	}
	return s
}

// Tab shows a page that a server hands out, or one that is a file.
type Tab struct {
	t     *testing.T
	ctx   context.Context
	start *url.URL

	mu       sync.Mutex
	requests []string
	errors   []string
}

// Open shows the page at a URL. At the end of the test it must have no errors in its
// console, and have asked nobody but its server; a file asks for nothing.
func Open(t *testing.T, ctx context.Context, address string, l Look) *Tab {
	t.Helper()
	start := check.Value(url.Parse(address))(t)
	p := &Tab{t: t, start: start}
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p.ctx, cancel = context.WithTimeout(ctx, Patience)
	t.Cleanup(cancel)
	check.Fatal(t, chromedp.Listen(p.ctx, p.hear))
	t.Cleanup(p.quiet)
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.Scheme}}}
	check.Value(chromedp.Call(p.ctx, emulation.SetEmulatedMedia, media))(t)
	script := emulation.SetScriptExecutionDisabledParams{Value: l.NoScript}
	check.Value(chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, script))(t)
	var options []chromedp.EmulateViewportOption
	if l.Phone {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	p.Do(chromedp.EmulateViewport(l.Width, l.Height, options...), chromedp.Navigate(address))
	return p
}

func (p *Tab) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *log.EventEntryAdded:
		// Tests beside this one make interfaces. The page asks again, as it does after any error.
		if !strings.HasSuffix(e.Entry.Text, "net::ERR_NETWORK_CHANGED") {
			p.errors = append(p.errors, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		p.errors = append(p.errors, fmt.Sprintf("console.%s was called", e.Type))
	}
}

func (p *Tab) quiet() {
	p.mu.Lock()
	defer p.mu.Unlock()
	check.None(p.t, p.errors, "the browser complains")
	if len(p.requests) == 0 {
		p.t.Error("the browser asked for nothing, not even for the page: nobody listened")
	}
	for _, r := range p.requests {
		if !p.own(r) {
			p.t.Errorf("the page asked for %s", r)
		}
	}
}

// own says whether a request is for what the page is of.
func (p *Tab) own(request string) bool {
	u, err := url.Parse(request)
	switch {
	case err != nil:
		return false
	case u.Scheme == "data":
		return true
	case p.start.Scheme == "file":
		return u.Scheme == "file" && u.Path == p.start.Path
	default:
		return u.Host == p.start.Host
	}
}

// Complaints are what the browser has found wrong with the page until now.
func (p *Tab) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.errors)
}

// Forgive forgets what the browser has complained of, and asked for after the page.
func (p *Tab) Forgive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors, p.requests = nil, p.requests[:min(1, len(p.requests))]
}

// Do performs steps.
func (p *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	check.Fatal(p.t, chromedp.Do(p.ctx, steps...))
}

// Eval is the value of a JavaScript expression.
func Eval[T any](p *Tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Text is what an element says as it is shown, empty if it is not there.
func (p *Tab) Text(selector string) string {
	p.t.Helper()
	return strings.Join(strings.Fields(Eval[string](p, fmt.Sprintf("(document.querySelector(%q) || {}).innerText || ''", selector))), " ")
}

// Await waits until a JavaScript expression is true, and fails with what the page says.
func (p *Tab) Await(what, expression string) {
	p.t.Helper()
	err := lab.Eventually(p.ctx, Patience/2, what, func() error {
		if Eval[bool](p, "!!("+expression+")") {
			return nil
		}
		return fmt.Errorf("not yet: %s", expression)
	})
	if err != nil {
		p.Shoot("failed-" + strings.ReplaceAll(p.t.Name(), "/", "-"))
		p.t.Fatalf("%v; the page says:\n%s", err, Eval[string](p, "document.body.innerText.slice(0, 3000)"))
	}
}

// Shoot makes a screenshot of the whole page, and keeps it for people to look at: below
// .run, in a directory named as that of the test.
func (p *Tab) Shoot(name string) (png []byte) {
	p.t.Helper()
	file := check.Value(chromedp.Run(p.ctx, chromedp.FullScreenshot(100)))(p.t)
	root := check.Value(lab.Repository())(p.t)
	here := check.Value(os.Getwd())(p.t)
	dir := filepath.Join(root, ".run", filepath.Base(here))
	check.Fatal(p.t, os.MkdirAll(dir, 0o755))
	check.Fatal(p.t, os.WriteFile(filepath.Join(dir, name+".png"), file, 0o644))
	return file
}
