package page

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/browser"
)

// told runs a case, and gives the file of its page.
func told(t *testing.T, text string) string {
	t.Helper()
	c := check.Value(plan.Parse(text))(t)
	r := chaos.Run(c, chaos.WithStory())
	r.Story.Entries = append(r.Story.Entries, report.StoryEntry{At: r.Simulated, Kind: report.StoryEvent, What: "evil", Text: evil})
	var page bytes.Buffer
	check.Fatal(t, chaos.WritePage(&page, r, "troupe v1.2.3", []string{"troupe", "chaos", "run", c.Line()}))
	file := filepath.Join(t.TempDir(), "case.html")
	check.Fatal(t, os.WriteFile(file, page.Bytes(), 0o644))
	return (&url.URL{Scheme: "file", Path: file}).String()
}

// TestCase reads the page of a case of troupe chaos as a user does, who has no network.
//
//tier:real
func TestCase(t *testing.T) {
	chromium := browser.New(t)
	broken := told(t, "create web main=app; create db main=app sidecar=log; on web Ready: lose-task web/app; delete web; "+
		"fault msg podset:Wanted - #2 = panic; fault call StartContainer db/app #1 = fail")
	still := desk
	still.NoScript = true
	for name, look := range map[string]browser.Look{"light": desk, "dark": night, "phone": phone, "noscript": still} {
		t.Run(name, func(t *testing.T) {
			p := browser.Open(t, chromium, broken, look)
			p.Shoot("case-" + name)
			says(t, p, "header", "troupe chaos", "Case that violates L01", "violated", "1 node", "2 pods")
			says(t, p, "#failures", "The rule that was broken", "nothing is left or under way", "the runtime still has 2 objects of pod web")
			says(t, p, "#command", "troupe chaos run 'seed 1; create web main=app;")
			says(t, p, "#the-case", "on web Ready: lose-task web/app", "fault msg podset:Wanted - #2 = panic")
			says(t, p, "#story", "create web main=app", "StartContainer db/app #1 = fail", "ended with code 0, lost", "phase=Running ready=True",
				"planted by the case", evil)
			says(t, p, "#broke", "rule broken", "L01", "the runtime still has 2 objects of pod web")
			check.Has(t, browser.Eval[string](p, "document.title"), "violates L01", "the title")
			if wide := browser.Eval[int](p, "document.documentElement.scrollWidth"); wide > int(look.Width) {
				t.Errorf("the page is %d pixels wide on a screen of %d", wide, look.Width)
			}
			apart(t, p)
			// Messages are hidden until they are asked for, and what is asked for goes.
			seen := func(kind string) int {
				return browser.Eval[int](p, fmt.Sprintf(`Array.from(document.querySelectorAll(".entry.%s")).filter(e => e.checkVisibility()).length`, kind))
			}
			if n, calls := seen("message"), seen("call"); n != 0 || calls < 10 {
				t.Errorf("%d messages and %d calls are shown", n, calls)
			}
			p.Do(chromedp.Click(chromedp.CSS("#show-message")), chromedp.Click(chromedp.CSS("#show-call")))
			if n, calls := seen("message"), seen("call"); n < 10 || calls != 0 {
				t.Errorf("then %d messages and %d calls are shown", n, calls)
			}
		})
	}
	p := browser.Open(t, chromium, told(t, "create web main=app; on web Ready: kill-agent"), desk)
	p.Shoot("case-held")
	says(t, p, "header", "Case that holds every rule", "held")
	p = browser.Open(t, chromium, told(t, "create web main=app; fault call StopContainer web/app #1 = hang"), night)
	p.Shoot("case-stale")
	says(t, p, "#the-case", "These never happened:", "fault call StopContainer web/app #1 = hang")
}

func says(t *testing.T, p *browser.Tab, selector string, want ...string) {
	t.Helper()
	text := strings.ToLower(p.Text(selector))
	for _, w := range want {
		check.Has(t, text, strings.ToLower(w), "%s does not say %q", selector, w)
	}
}

// apart sees that no row of the story covers another, and that no text leaves its column.
func apart(t *testing.T, p *browser.Tab) {
	t.Helper()
	bad := browser.Eval[[]string](p, `(() => {
		const out = []; let end = 0;
		for (const e of Array.from(document.querySelectorAll(".story .entry")).filter(e => e.checkVisibility())) {
			const r = e.getBoundingClientRect(), text = e.querySelector("p");
			if (r.top < end - 1) out.push("covers: " + e.innerText);
			if (text && text.scrollWidth > text.clientWidth + 1) out.push("leaves: " + e.innerText);
			end = r.bottom;
		}
		return out;
	})()`)
	if len(bad) > 0 {
		t.Errorf("%d rows, first %q", len(bad), bad[0])
	}
}
