package plan

import (
	"strings"
	"testing"
)

const good = `seed 7
no-events
create job main=app sidecar=proxy restart=OnFailure ready=app app.term-exit-code=0
on job Ready +200ms: image job/app to=registry.test/app:2
at 20s: delete job grace=3
fault call StopContainer job/app #1 = slow 500ms
fault msg pods:Wanted - #2 = panic
`

// TestParsePrints: a case is printed as it was written, as lines and as one line.
func TestParsePrints(t *testing.T) {
	c, err := Parse("# why\n\n" + good)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.String(); got != good {
		t.Errorf("printed as\n%s", got)
	}
	again, err := Parse(c.Line())
	if err != nil || again.Hash() != c.Hash() {
		t.Errorf("as a line: %v, %s", err, c.Line())
	}
}

// TestParseSaysWhatIsWrong: with the line, and all of it.
func TestParseSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"seed x":                              `line 1: "seed x"`,
		"explode":                             `there is no operation "explode"`,
		"create a":                            "it has no container",
		"create a main=app main=app":          "the name is no name, or taken",
		"create a main=app restart=No":        "want Always, OnFailure or Never",
		"create a main=app app.run=1":         "run",
		"create a main=app colour=red":        "there is no such word for a pod",
		"delete a":                            "there is no pod a yet",
		"create a main=app; exit a code=1":    "exit is about a container",
		"create a main=app; exit a/b":         "pod a has no container b",
		"create a main=app; delete a x=1":     `delete has no "x"`,
		"create a main=app; on a Up: force a": `there is no state "Up"`,
		"on a Ready force a":                  `there is no ": "`,
		"kill-agent for=soon":                 "for=soon",
		"standalone; create a main=app":       "needs an apiserver",
		"fault call X a = fail":               "want: fault STREAM",
		"fault sky X - #1 = fail":             `there is no stream "sky"`,
		"fault call X - #1 = panic":           `call can't have "panic"`,
		"fault call X - #0 = fail":            "the first is #1",
		"fault call X - #1 = fail 1s":         "take a duration",
		"fault call X b #1 = fail":            "there is no pod b",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Parse("explode\nimplode"); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("the second error is missing: %v", err)
	}
}

// FuzzParse: rubbish gives an error, and what is read is printed so that it is read again.
func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("create a main=app; fault host UnmountPod a #1 = hang")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(c.String())
		if err != nil || again.String() != c.String() {
			t.Errorf("%q is printed as %q: %v", text, c.String(), err)
		}
	})
}
