package chaos

import (
	"bytes"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestStory: what is told of a case is what happened, in order, and telling it changes nothing.
func TestStory(t *testing.T) {
	c := parse(t, "create web main=app; on web Ready: kill-agent; "+
		"fault call StartContainer web/app #1 = fail; fault msg podset:Wanted - #2 = panic")
	plain, told := Run(c), Run(c, WithStory())
	if plain.Hash != told.Hash || plain.Story != nil {
		t.Errorf("with a story the run is another: %x, not %x", told.Hash, plain.Hash)
	}
	s := told.Story
	if strings.Join(s.Lanes, " ") != "n1 web" || s.Nodes != 1 {
		t.Errorf("the lanes are %q", s.Lanes)
	}
	at := 0
	for _, want := range []report.StoryEntry{
		{Lane: 1, Kind: report.StoryOperation, Text: "create web main=app"},
		{Lane: 0, Kind: report.StoryRuntime, Text: "the agent starts"},
		{Lane: 0, Kind: report.StoryFault, Text: "msg podset:Wanted - #2 = panic"},
		{Lane: 0, Kind: report.StoryCrash, What: "podset", Text: "podset.Wanted: planted by the case: before podset.Wanted: restart"},
		{Lane: 1, Kind: report.StoryMessage, What: "pod.Assign", Text: "to run"},
		{Lane: 1, Kind: report.StoryRuntime, What: "sandbox", Text: "started"},
		{Lane: 1, Kind: report.StoryFault, Text: "call StartContainer web/app #1 = fail"},
		{Lane: 1, Kind: report.StoryEvent, What: "Failed app", Text: "Error: planted by the case"},
		{Lane: 1, Kind: report.StoryRuntime, What: "app #0", Text: "started"},
		{Lane: 0, Kind: report.StoryOperation, Text: "kill-agent"},
		{Lane: 1, Kind: report.StoryShown, Text: "phase=Running ready=True app=running"},
		{Lane: 0, Kind: report.StoryRuntime, Text: "the agent starts"},
	} {
		for ; at < len(s.Entries); at++ {
			e := s.Entries[at]
			if e.Lane == want.Lane && e.Kind == want.Kind && e.What == want.What && e.Text == want.Text {
				break
			}
		}
		if at == len(s.Entries) {
			t.Fatalf("it is not told, or not in order: %+v\n%+v", want, s.Entries)
		}
	}
}

// TestStoryOfWhatBroke: the rule is in the lane of its pod, at its time, and on the page.
func TestStoryOfWhatBroke(t *testing.T) {
	r := Run(parse(t, "standalone; write web main=app; on web Ready: lose-task web/app; remove web"), WithStory())
	check.Fatal(t, check.Is(r.Verdict(), Violated, "it"))
	last := r.Story.Entries[len(r.Story.Entries)-1]
	if last.Kind != report.StoryBroke || last.What != "L01" || last.At != r.Simulated {
		t.Errorf("the last is %+v, the run took %s", last, r.Simulated)
	}
	var page bytes.Buffer
	check.Fatal(t, WritePage(&page, r, "troupe v1", []string{"troupe", "chaos", "run", r.Case.Line()}))
	for _, want := range []string{"Case that violates L01", "nothing is left or under way", r.Violations[0].What, "lose-task web/app", "phase=Running ready=True"} {
		check.Has(t, page.String(), want, "the page does not say %q", want)
	}
	check.Fails(t, WritePage(&page, Run(r.Case), "", nil), "a page without a story was written")
}
