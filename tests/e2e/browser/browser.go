// Package browser starts a real browser for tests.
package browser

import (
	"context"
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// New starts a browser for one test, and skips the test where there is none.
func New(t *testing.T) context.Context {
	t.Helper()
	lab.Need(t, lab.Chromium)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to start for root otherwise
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return ctx
}
