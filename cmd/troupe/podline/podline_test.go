package podline

import (
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"github.com/troupe-dev/troupe/actors/decide/whynot"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/timeline"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // times are printed as clocks on the wall have them
	os.Exit(m.Run())
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) time.Time { return now.Add(-d) }

func sample() admin.Timeline {
	last := before(time.Second)
	return admin.Timeline{
		At: now,
		View: timeline.View{Namespace: "default", Name: "web", UID: "u1", Dropped: 34, DroppedAfter: 4, Entries: []timeline.Entry{
			{Seq: 1, At: before(5 * time.Minute), Kind: "message", What: "pod.Assign", Text: "to run"},
			{Seq: 2, At: before(5*time.Minute - time.Second), Kind: "call", By: "images", What: "PullImage", Object: "app:1", Phase: "finished", Waited: 300 * time.Millisecond, Took: 2345 * time.Millisecond},
			{Seq: 3, At: before(5*time.Minute - 2*time.Second), Kind: "call", By: "volumes", What: "MountVolume", Object: "v", Phase: "overdue", Took: 2 * time.Minute, Bad: true, Text: "the file system did not answer"},
			{Seq: 4, At: before(4 * time.Minute), Kind: "event", What: "Failed", Object: "app", Text: "Error: \x1b[31mred\nand more", Bad: true},
			{Seq: 39, At: before(time.Minute), Last: &last, Count: 12, Kind: "call", By: "probes", What: "HTTPProbe", Object: "web/app", Phase: "finished", Took: 812 * time.Microsecond, Bad: true, Text: "readiness: 503"},
			{Seq: 40, At: before(40 * time.Second), Kind: "status", What: "Syncing", Text: "phase=Running ready=False app=running#3"},
			{Seq: 41, At: before(30 * time.Second), Kind: "crash", What: "panic", Object: "pod.Wake", Text: "index out of range: restart", Bad: true},
			{Seq: 42, At: before(20 * time.Second), Kind: "call", What: "StopContainer", Object: "app", Phase: "running"},
			{Seq: 43, At: before(10 * time.Second), Kind: "call", What: "CreateContainer", Object: "app", Phase: "queued"},
			{Seq: 44, At: before(5 * time.Second), Kind: "call", What: "StartContainer", Object: "app", Phase: "dropped"},
		}},
		Pod: &podview.Pod{Namespace: "default", Name: "web", UID: "u1", Life: "Syncing", Phase: "Running", Restarts: 3, Why: &whynot.Answer{
			Text: `Container "app" is running, but its probe fails: 503.`, Next: "See its logs: kubectl logs -n default web-1 -c app.", Wrong: true,
		}},
	}
}

func TestDraw(t *testing.T) {
	golden.Assert(t, Draw(sample(), Options{}), "pod.txt")
	golden.Assert(t, Draw(sample(), Options{Newest: 3}), "newest.txt")
	ended := before(time.Hour)
	gone := sample()
	gone.Pod, gone.Ended, gone.Entries, gone.Dropped = nil, &ended, gone.Entries[:1], 0
	golden.Assert(t, Draw(gone, Options{}), "gone.txt")
	gone.Ended, gone.Silent = nil, "the pods actor does not answer"
	if got := Draw(gone, Options{}); !strings.HasPrefix(got, "default/web (u1): the pods actor does not answer\n") {
		t.Error(got)
	}
}

func TestColors(t *testing.T) {
	plain, colored := Draw(sample(), Options{}), Draw(sample(), Options{Color: true})
	if strings.Contains(plain, "\x1b") {
		t.Error("colors, and none are wanted")
	}
	for _, want := range []string{"\x1b[1mdefault/web (u1)\x1b[0m", "\x1b[31mWhy:  Container", "\x1b[1mTIME", "\x1b[31m11:59:30.000"} {
		if !strings.Contains(colored, want) {
			t.Errorf("no %q in\n%q", want, colored)
		}
	}
}

func TestChanges(t *testing.T) {
	var c Changes
	var b strings.Builder
	show := func(what string, line admin.Timeline) {
		b.WriteString("-- " + what + "\n")
		for _, l := range c.Lines(line) {
			b.WriteString(l + "\n")
		}
	}
	line := sample()
	show("first", line)
	show("the same", line)
	line = sample()
	line.Entries[4].Count = 13
	line.Entries[7].Phase, line.Entries[7].Took = "finished", 20*time.Second
	line.Entries[8].Phase, line.Entries[8].At = "running", before(time.Millisecond)
	line.Pod.Why.Text = "Another one."
	show("more", line)
	line = sample()
	line.UID, line.Entries, line.Pod = "u2", line.Entries[:1], &podview.Pod{Phase: "Running", Life: "Syncing", Ready: true}
	show("the next pod of that name", line)
	golden.Assert(t, b.String(), "changes.txt")
}
