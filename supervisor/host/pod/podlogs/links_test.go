package podlogs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// linkLab is a directory of links, and one of logs.
type linkLab struct {
	*Links
	t *testing.T
}

func newLinkLab(t *testing.T) *linkLab {
	t.Helper()
	root := t.TempDir()
	return &linkLab{t: t, Links: NewLinks(filepath.Join(root, "var", "containers"), filepath.Join(root, "pods"))}
}

func linked(pod, id string, attempt uint32) port.LinkedLog {
	return port.LinkedLog{ID: id, LogRef: port.LogRef{Namespace: "default", Pod: pod, UID: "u-1", Container: "app", Attempt: attempt}}
}

// log makes the log, and says where it is.
func (l *linkLab) log(log port.LinkedLog) string {
	l.t.Helper()
	path := filepath.Join(l.logs, log.String())
	hosttest.Write(l.t, path, log.ID+"\n")
	return path
}

// symlink makes a link as somebody else does.
func (l *linkLab) symlink(target, name string) {
	l.t.Helper()
	check.Fatal(l.t, os.MkdirAll(l.dir, 0o755))
	check.Fatal(l.t, os.Symlink(target, filepath.Join(l.dir, name)))
}

func (l *linkLab) call(call func(context.Context, port.LinkedLog, func(error)), log port.LinkedLog) error {
	_, err := answerOf(l.t, func(done func(struct{}, error)) {
		call(l.t.Context(), log, func(err error) { done(struct{}{}, err) })
	})
	return err
}

func (l *linkLab) tidyUp(logs ...port.LinkedLog) error {
	_, err := answerOf(l.t, func(done func(struct{}, error)) {
		l.TidyLogLinks(l.t.Context(), logs, func(err error) { done(struct{}{}, err) })
	})
	return err
}

// has compares what is in the directory: name, or name -> target.
func (l *linkLab) has(want ...string) {
	l.t.Helper()
	entries := check.Value(os.ReadDir(l.dir))(l.t)
	var got []string
	for _, e := range entries {
		target := check.Value(readLink(filepath.Join(l.dir, e.Name())))(l.t)
		if target != "" {
			target = " -> " + strings.TrimPrefix(target, l.logs+"/")
		}
		got = append(got, e.Name()+target)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		l.t.Errorf("the directory has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestLinkLog: a link is made before there is a log, and links to it when there is;
// what is in the way is left alone.
func TestLinkLog(t *testing.T) {
	l := newLinkLab(t)
	a := linked("web", "c1", 2)
	for range 2 {
		check.Fatal(t, l.call(l.LinkLog, a))
	}
	l.has("web_default_app-c1.log -> default_web_u-1/app/2.log")
	l.log(a)
	check.Equal(t, string(check.Value(os.ReadFile(filepath.Join(l.dir, "web_default_app-c1.log")))(t)), "c1\n", "it")
	hosttest.Write(t, filepath.Join(l.dir, "web_default_app-c2.log"), "somebody's")
	if err := l.call(l.LinkLog, linked("web", "c2", 3)); port.KindOf(err) != port.StateConflict || !strings.Contains(err.Error(), "web_default_app-c2.log exists and is not a symlink: remove it") {
		t.Errorf("%v", err)
	}
	check.Error(t, l.call(l.UnlinkLog, linked("web", "c2", 3)))
	l.symlink("/etc/hostname", "web_default_app-c3.log")
	check.Says(t, l.call(l.LinkLog, linked("web", "c3", 4)), "links to /etc/hostname", "the error")
	check.Error(t, l.call(l.UnlinkLog, linked("web", "c3", 4)))
	bad := linked("web", "../../c4", 0)
	if err := l.call(l.LinkLog, bad); port.KindOf(err) != port.InvalidConfig {
		t.Errorf("%v", err)
	}
	for range 2 {
		check.Error(t, l.call(l.UnlinkLog, a))
	}
	l.has("web_default_app-c2.log", "web_default_app-c3.log -> /etc/hostname")
}

// TestLinksOfLongNames: where the name has no room for the ID, the newest
// incarnation has the link, and keeps it when the one before goes.
func TestLinksOfLongNames(t *testing.T) {
	l := newLinkLab(t)
	name := strings.Repeat("p", 250)
	// The logs of such a pod have no directory of that name: a link is all there can be.
	for attempt := range uint32(3) {
		check.Fatal(t, l.call(l.LinkLog, linked(name, fmt.Sprint("c", attempt), attempt)))
	}
	want := name + "_.log -> default_" + name + "_u-1/app/2.log"
	l.has(want)
	check.Fatal(t, l.call(l.UnlinkLog, linked(name, "c1", 1)))
	l.has(want)
	check.Fatal(t, l.call(l.UnlinkLog, linked(name, "c2", 2)))
	l.has()
}

// TestTidyLogLinks: what is missing is made, what is dead goes, and nothing else is
// touched.
func TestTidyLogLinks(t *testing.T) {
	l := newLinkLab(t)
	running, dead, fresh, without := linked("web", "c1", 1), linked("web", "c0", 0), linked("new", "c2", 0), linked("old", "c3", 0)
	l.log(running)
	l.log(dead)
	check.Fatal(t, l.call(l.LinkLog, fresh)) // not started: no log yet
	other := filepath.Join(t.TempDir(), "pods")
	hosttest.Write(t, filepath.Join(other, "default_b_u2/app/0.log"), "")
	hosttest.Write(t, filepath.Join(other, "default_c_u3/app/0.log.20261121-100000"), "") // being rotated
	for target, name := range map[string]string{
		other + "/default_a_u1/app/0.log":            "a_default_app-c9.log", // a former agent's, dead
		l.logs + "/default_gone_u-1/app/0.log":       "gone_default_app-c9.log",
		l.logs + "/default_web_u-1/app/7.log":        "web_default_app-c9.log", // of a container that is gone
		other + "/default_b_u2/app/0.log":            "b_default_app-c9.log",   // a second agent's
		other + "/default_b_u2/new/0.log":            "b_default_new-c9.log",   // that it starts next
		other + "/default_c_u3/app/0.log":            "c_default_app-c9.log",
		"/nowhere/at/all":                            "nowhere.log",
		"default_a_u1/app/0.log":                     "a_default_app-c8.log",
		other + "/default_a_u1/app/0.log.2026.gz":    "a_default_app-c7.log",
		other + "/default_other_u1/app/0.log":        "a_default_app-c6.log",
		l.logs + "/default_gone_u-1/app/../app/.log": "gone_default_app-c5.log",
	} {
		l.symlink(target, name)
	}
	hosttest.Write(t, filepath.Join(l.dir, "file_default_app-c9.log"), "")
	keeps := func(more ...string) {
		t.Helper()
		l.has(append(more,
			"web_default_app-c1.log -> default_web_u-1/app/1.log", "web_default_app-c0.log -> default_web_u-1/app/0.log",
			"new_default_app-c2.log -> default_new_u-1/app/0.log",
			"b_default_app-c9.log -> "+other+"/default_b_u2/app/0.log", "b_default_new-c9.log -> "+other+"/default_b_u2/new/0.log",
			"c_default_app-c9.log -> "+other+"/default_c_u3/app/0.log", "nowhere.log -> /nowhere/at/all",
			"a_default_app-c8.log -> default_a_u1/app/0.log", "a_default_app-c7.log -> "+other+"/default_a_u1/app/0.log.2026.gz",
			"a_default_app-c6.log -> "+other+"/default_other_u1/app/0.log",
			"gone_default_app-c5.log -> default_gone_u-1/app/../app/.log", "file_default_app-c9.log")...)
	}
	for range 2 {
		check.Fatal(t, l.tidyUp(running, dead, fresh, without, linked("bad", "a/b", 0)))
		keeps("web_default_app-c9.log -> default_web_u-1/app/7.log")
	}
	// What was made a while ago will have no log any more.
	l.now = func() time.Time { return time.Now().Add(time.Hour) }
	check.Fatal(t, l.tidyUp(running, dead, fresh, without))
	keeps()
	// Somebody removed them all, with the directory.
	check.Fatal(t, os.RemoveAll(l.dir))
	check.Fatal(t, l.tidyUp(running, dead))
	l.has("web_default_app-c1.log -> default_web_u-1/app/1.log", "web_default_app-c0.log -> default_web_u-1/app/0.log")
}

// TestTidyManyLinks: of very many dead ones a part goes at a time, and what is
// missing is made all the same.
func TestTidyManyLinks(t *testing.T) {
	l := newLinkLab(t)
	running := linked("web", "c1", 1)
	l.log(running)
	const many = tidyMost + tidyBatch + 100
	for i := range many {
		l.symlink("/old/logs/default_gone_u1/app/0.log", fmt.Sprintf("gone_default_app-c%d.log", i))
	}
	for _, want := range []bool{true, false} {
		check.Fatal(t, l.tidyUp(running))
		entries := check.Value(os.ReadDir(l.dir))(t)
		if more := len(entries) > 1; more != want || len(entries) > many-tidyMost+1 {
			t.Errorf("%d entries are left", len(entries))
		}
		if _, err := os.Readlink(filepath.Join(l.dir, "web_default_app-c1.log")); err != nil {
			t.Error(err)
		}
	}
}

// TestLinksThatCannotBeMade: without a directory there is an error that names it,
// also while there is nothing to make.
func TestLinksThatCannotBeMade(t *testing.T) {
	l := newLinkLab(t)
	hosttest.Write(t, filepath.Dir(l.dir), "a file")
	for _, err := range []error{l.tidyUp(), l.call(l.LinkLog, linked("web", "c1", 0))} {
		check.Says(t, err, filepath.Dir(l.dir), "the error")
	}
	check.Fatal(t, os.Remove(filepath.Dir(l.dir)))
	check.Error(t, l.tidyUp())
	l.has()
}

// TestTidyLogLinksOfAnOldList: a container that was removed since it was listed gets
// no link again, although its log is there for a while yet.
func TestTidyLogLinksOfAnOldList(t *testing.T) {
	l := newLinkLab(t)
	a, b := linked("web", "c1", 1), linked("web", "c2", 2)
	for _, log := range []port.LinkedLog{a, b} {
		l.log(log)
		check.Fatal(t, l.call(l.LinkLog, log))
	}
	check.Fatal(t, l.call(l.UnlinkLog, a))
	for range 2 {
		check.Fatal(t, l.tidyUp(a, b))
		l.has("web_default_app-c2.log -> default_web_u-1/app/2.log")
	}
	check.Fatal(t, l.tidyUp(b))
	check.AtMost(t, len(l.gone)+len(l.before), 0, "it remembers %v, %v for good", l.gone, l.before)
}

// TestOneTidyAtATime: one that hangs is not joined by others.
func TestOneTidyAtATime(t *testing.T) {
	l := newLinkLab(t)
	l.tidying.Store(true)
	if err := l.tidyUp(); port.KindOf(err) != port.StateConflict {
		t.Errorf("%v", err)
	}
	l.tidying.Store(false)
	check.Fatal(t, l.tidyUp())
}

// BenchmarkTidyLogLinks is what a node with 300 containers pays in a sweep.
func BenchmarkTidyLogLinks(b *testing.B) {
	root := b.TempDir()
	l := NewLinks(filepath.Join(root, "links"), filepath.Join(root, "pods"))
	var logs []port.LinkedLog
	for i := range 300 {
		log := linked(fmt.Sprint("web-", i), fmt.Sprint("c", i), 0)
		logs = append(logs, log)
		path := filepath.Join(l.logs, log.String())
		check.Fatal(b, os.MkdirAll(filepath.Dir(path), 0o700))
		check.Fatal(b, os.WriteFile(path, nil, 0o600))
	}
	for b.Loop() {
		check.Fatal(b, l.tidy(b.Context(), logs))
	}
}
