package diskuse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/supervisor/host/child/filecount"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk plays children: it has directories that take so long to count, by virtual time. Each has as many files as
// seconds, at least one.
type disk struct {
	*Counts
	t     *testing.T
	began time.Time

	mu     sync.Mutex
	takes  map[string]time.Duration
	fails  map[string]error
	hangs  map[string]bool
	asked  []string
	counts map[string]int
	// running are the children at work, most the most that ever were. ended is when the last one was done.
	running, most int
	ended         time.Time
}

// test runs a test in virtual time.
func test(t *testing.T, do func(*disk)) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{
			t: t, began: time.Now(), takes: map[string]time.Duration{}, fails: map[string]error{}, hangs: map[string]bool{},
			counts: map[string]int{},
		}
		n := check.Value(
			New(&Config{Effort: Default, Home: "/pods", Ask: d.ask, Counted: func(filecount.Tree, filecount.Count) {}}))(t)
		d.Counts = n
		defer n.Close()
		do(d)
	})
}

func (d *disk) ask(ctx context.Context, r filecount.Request) (out []filecount.Count, err error) {
	end := time.Now().Add(r.Budget)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running++
	d.most = max(d.most, d.running)
	defer func() { d.running, d.ended = d.running-1, time.Now() }()
	var names []string
	defer func() {
		d.asked = append(d.asked, fmt.Sprintf("%v %s", r.Slice, strings.Join(names, " ")))
	}()
	for _, t := range r.Trees {
		if time.Now().After(end) {
			out = append(out, filecount.Count{Left: true})
			continue
		}
		names = append(names, t.Path)
		if err := d.fails[t.Path]; err != nil {
			return out, err
		}
		takes, hangs := d.takes[t.Path], d.hangs[t.Path]
		c := filecount.Count{Walked: true, Took: takes, Entries: max(1, uint64(takes/time.Second))}
		if takes > r.Slice {
			c.Partial, c.Took, c.Entries = true, r.Slice, max(1, uint64(r.Slice/time.Second))
		}
		d.counts[t.Path]++
		d.mu.Unlock()
		wait := time.NewTimer(c.Took)
		if hangs {
			wait.Reset(time.Hour)
		}
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			d.mu.Lock()
			return out, ctx.Err()
		}
		d.mu.Lock()
		out = append(out, c)
	}
	return out, nil
}

func (d *disk) set(name string, takes time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.takes[name] = takes
}

// told is what children were asked for since the last time.
func (d *disk) told() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.asked = nil }()
	return d.asked
}

func (d *disk) want(what string, want ...string) {
	d.t.Helper()
	if got := d.told(); !slices.Equal(got, want) {
		d.t.Errorf("%s: children counted\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// trees are those of pods, named POD/DIRECTORY.
func trees(names ...string) (out []Tree) {
	for _, name := range names {
		pod, _, _ := strings.Cut(name, "/")
		out = append(out, Tree{filecount.Tree{Path: name}, pod})
	}
	return out
}

// of asks for some, and says what is known of each: entries, + for a lower bound, and how old that is.
func (d *disk) of(wait bool, names ...string) (string, error) {
	now := time.Now()
	found, err := d.Of(d.t.Context(), trees(names...), wait)
	var out []string
	for _, name := range names {
		k := found[name]
		text := fmt.Sprint(k.Entries)
		if k.Partial {
			text += "+"
		}
		if age := now.Sub(k.At); !k.At.IsZero() && age > 0 {
			text += fmt.Sprintf("@%v", age)
		}
		out = append(out, text)
	}
	return strings.Join(out, " "), err
}

func (d *disk) wantOf(wait bool, want string, names ...string) {
	d.t.Helper()
	if got, err := d.of(wait, names...); got != want || err != nil {
		d.t.Errorf("after %v: %v are %q, %v; want %q", time.Since(d.began), names, got, err, want)
	}
}

// TestQuick: small directories are counted together, each time, unless that took long.
func TestQuick(t *testing.T) {
	test(t, func(d *disk) {
		d.takes["b/1"] = 400 * time.Millisecond
		d.wantOf(true, "1 1", "a/1", "b/1")
		d.wantOf(true, "1 1@400ms", "a/1", "b/1")
		d.want("the second is good for a while", "500ms a/1 b/1", "500ms a/1")
		time.Sleep(4 * time.Second)
		d.wantOf(true, "1", "b/1")
		d.want("later", "500ms b/1")
	})
}

// TestLarge: a large directory is a lower bound at first, and counted alone. Nobody else waits for that.
func TestLarge(t *testing.T) {
	test(t, func(d *disk) {
		d.takes["a/1"] = 40 * time.Second
		d.wantOf(false, "1+ 1", "a/1", "b/1")
		for range 3 {
			time.Sleep(10 * time.Second)
			at := time.Now()
			if got, err := d.of(false, "a/1", "b/1"); !strings.HasPrefix(got, "1+@") || !strings.HasSuffix(got, " 1") || err != nil {
				t.Errorf("meanwhile: %s, %v", got, err)
			}
			check.AtMost(t, time.Since(at), 0, "a call waited for it")
		}
		time.Sleep(11 * time.Second)
		d.wantOf(false, "40@41s 1", "a/1", "b/1")
		d.want("alone once", "500ms a/1 b/1", "500ms b/1", "500ms b/1", "500ms b/1", "1m0s a/1", "500ms b/1")
		time.Sleep(5 * time.Minute)
		d.wantOf(false, "40@5m41s", "a/1")
		d.want("a count that took so long is good for so long")
		time.Sleep(70 * time.Second)
		d.wantOf(false, "40@6m51s", "a/1")
		time.Sleep(41 * time.Second)
		d.wantOf(false, "40@41s", "a/1")
		d.want("after that", "1m0s a/1")
	})
}

// TestAwaited: a call that waits gets the count of a directory that is not too large.
func TestAwaited(t *testing.T) {
	test(t, func(d *disk) {
		d.takes["a/1"] = 5 * time.Second
		d.wantOf(true, "5", "a/1")
		d.set("b/1", time.Minute)
		d.wantOf(true, "1+", "b/1")
		check.Equal(t, time.Since(d.began), 5500*time.Millisecond+Default.Wait, "both took")
		d.set("b/1", time.Hour)
		time.Sleep(20 * time.Minute)
		at := time.Now()
		if d.wantOf(true, "60@20m5s", "b/1"); time.Since(at) > Default.Wait {
			t.Errorf("a call waited %v", time.Since(at))
		}
		time.Sleep(5 * time.Minute)
		at = time.Now()
		if got, _ := d.of(true, "b/1"); !strings.HasPrefix(got, "60+@") || time.Since(at) > 0 {
			t.Errorf("a call waited %v for one that takes an hour: %s", time.Since(at), got)
		}
		d.set("a/1", 0)
		d.told()
		d.wantOf(true, "1", "a/1")
		d.want("it is small now", "1m0s a/1")
		d.wantOf(true, "1", "a/1")
		d.want("again", "500ms a/1")
	})
}

// TestHuge: a directory is counted to its end even if that takes very long, and then keeps nobody from being counted.
func TestHuge(t *testing.T) {
	test(t, func(d *disk) {
		d.takes["a/1"], d.takes["b/1"], d.takes["c/1"] = 5*time.Minute, 5*time.Second, time.Hour
		for range 400 {
			check.Value(d.of(false, "a/1", "b/1", "c/1"))(t)
			time.Sleep(10 * time.Second)
		}
		found, err := d.Of(d.t.Context(), trees("a/1", "b/1", "c/1"), false)
		if a := found["a/1"]; a.Partial || a.Entries != 300 || err != nil {
			t.Errorf("the huge one: %+v, %v", a, err)
		}
		if b := found["b/1"]; b.Partial || b.Entries != 5 || time.Since(b.At) > 3*time.Minute || d.counts["b/1"] < 30 {
			t.Errorf("the large one: %+v, counted %d times", b, d.counts["b/1"])
		}
		if c := found["c/1"]; !c.Partial || c.Entries != 900 || d.counts["c/1"] > 4 {
			t.Errorf("the endless one: %+v, counted %d times", c, d.counts["c/1"])
		}
		check.AtMost(t, d.most, 2, "%d children were at work", d.most)
	})
}

// TestPodsTakeTurns: a pod with many large directories gets one turn, then the others have theirs.
func TestPodsTakeTurns(t *testing.T) {
	test(t, func(d *disk) {
		names := []string{"a/1", "a/2", "a/3", "b/1", "c/1"}
		for _, name := range names {
			d.takes[name] = 20 * time.Second
		}
		d.wantOf(false, "1+ 1+ 1+ 1+ 1+", names...)
		time.Sleep(time.Hour)
		d.want("in turn", "500ms a/1 a/2 a/3 b/1 c/1", "1m0s a/1", "1m0s b/1", "1m0s c/1", "1m0s a/2", "1m0s a/3")
		if took := d.ended.Sub(d.began); took != 5*Default.Slice+5*20*time.Second+4*20*time.Second {
			t.Errorf("it took %v; half of the time is to be rest", took)
		}
	})
}

// TestBudget: what was not reached in time is counted first the next time.
func TestBudget(t *testing.T) {
	test(t, func(d *disk) {
		var names []string
		for i := range 50 {
			names = append(names, fmt.Sprintf("%d/1", i))
			d.takes[names[i]] = 400 * time.Millisecond
		}
		for range 3 {
			at := time.Now()
			got, err := d.of(false, names...)
			if err != nil || strings.Contains(got, "0+") != at.Equal(d.began) {
				t.Errorf("%s, %v", got, err)
			}
			check.AtMost(t, time.Since(at), Default.Budget+Default.Slice, "a call took")
		}
		for _, name := range names {
			if n := d.counts[name]; n < 1 || n > 2 {
				t.Errorf("%s was counted %d times", name, n)
			}
		}
	})
}

// TestBudgetOfMany: no more children are started when the time is over.
func TestBudgetOfMany(t *testing.T) {
	test(t, func(d *disk) {
		var names []string
		for i := range batch + 1 {
			names = append(names, fmt.Sprintf("%d/1", i))
		}
		d.wantOf(true, strings.Repeat("1 ", batch)+"1", names...)
		check.Count(t, len(d.told()), 2, "%d children were started")
		for _, name := range names {
			d.set(name, 400*time.Millisecond)
		}
		if _, err := d.of(true, names...); err != nil {
			t.Error(err)
		}
		check.Count(t, len(d.told()), 1, "%d children were started in too little time")
	})
}

// TestFailures: a directory that makes a child fail is counted alone, and keeps nobody from being counted.
func TestFailures(t *testing.T) {
	test(t, func(d *disk) {
		d.fails["b/1"] = errors.New("killed")
		for range 2 {
			got, err := d.of(false, "a/1", "b/1", "c/1")
			if got != "1 0+ 1" || err == nil || !strings.Contains(err.Error(), "count the files below b/1: killed") {
				t.Errorf("%s, %v", got, err)
			}
			time.Sleep(time.Second)
		}
		d.want("alone", "500ms a/1 b/1", "500ms c/1", "1m0s b/1", "500ms a/1 c/1", "1m0s b/1")
		synctest.Wait()
		d.fails["b/1"] = nil
		d.wantOf(true, "1 1 1", "a/1", "b/1", "c/1")
		d.wantOf(true, "1 1 1", "a/1", "b/1", "c/1")
		d.want("it works again", "500ms a/1 c/1", "1m0s b/1", "500ms a/1 b/1 c/1")
	})
}

// TestNoChildren: if no child can be started, that is not the fault of all directories.
func TestNoChildren(t *testing.T) {
	test(t, func(d *disk) {
		names := []string{"a/1", "b/1", "c/1", "d/1", "e/1"}
		for _, name := range names {
			d.fails[name] = errors.New("no process")
		}
		got, err := d.of(false, names...)
		if got != "0+ 0+ 0+ 0+ 0+" || err == nil {
			t.Errorf("%s, %v", got, err)
		}
		synctest.Wait()
		if n := len(d.told()); n > 2*strikes {
			t.Errorf("%d children were tried", n)
		}
	})
}

// TestHangs: a directory that hangs holds up one call, and then nobody.
func TestHangs(t *testing.T) {
	test(t, func(d *disk) {
		d.hangs["b/1"] = true
		at := time.Now()
		got, err := d.of(false, "a/1", "b/1", "c/1")
		if took := time.Since(at); got != "1 0+ 0+" || err == nil || took != Default.Patience {
			t.Errorf("%s, %v, after %v", got, err, took)
		}
		for range 20 {
			time.Sleep(10 * time.Second)
			at = time.Now()
			if got, _ := d.of(false, "a/1", "b/1", "c/1"); got != "1 0+ 1" || time.Since(at) > 0 {
				t.Errorf("%s, after %v", got, time.Since(at))
			}
		}
	})
}

// TestGivenUp: a caller that gives up says nothing about the directories.
func TestGivenUp(t *testing.T) {
	test(t, func(d *disk) {
		d.takes["a/1"] = 400 * time.Millisecond
		ctx, cancel := context.WithTimeout(d.t.Context(), 100*time.Millisecond)
		defer cancel()
		found, err := d.Of(ctx, trees("a/1"), true)
		if !errors.Is(err, context.DeadlineExceeded) || !found["a/1"].Partial {
			t.Errorf("%+v, %v", found, err)
		}
		d.wantOf(true, "1", "a/1")
		d.want("it is not counted alone", "500ms a/1", "500ms a/1")
	})
}

// TestForgotten: a directory for which nobody asks is not counted, and forgotten.
func TestForgotten(t *testing.T) {
	test(t, func(d *disk) {
		d.takes["a/1"] = time.Second
		d.wantOf(true, "1", "a/1")
		d.told()
		time.Sleep(forget + time.Second)
		d.wantOf(true, "1", "b/1")
		d.want("only the other", "500ms b/1")
		check.Equal(t, len(d.book), 1, "%d directories are remembered", len(d.book))
	})
}

// TestClose: counts of large directories end with the agent.
func TestClose(t *testing.T) {
	test(t, func(d *disk) {
		d.takes["a/1"] = time.Hour
		d.wantOf(false, "1+", "a/1")
		at := time.Now()
		if d.Close(); time.Since(at) > 0 {
			t.Errorf("it took %v", time.Since(at))
		}
		d.told()
		d.wantOf(true, "1+@500ms", "a/1")
		d.want("closed")
	})
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"nobody counts":  func(c *Config) { c.Ask = nil },
		"nobody is told": func(c *Config) { c.Counted = nil },
		"no lane":        func(c *Config) { c.Alone = nil },
	} {
		c := Config{Effort: Default, Ask: new(disk).ask, Counted: func(filecount.Tree, filecount.Count) {}}
		change(&c)
		if n, err := New(&c); err == nil {
			n.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

// A newer count of another call is not replaced, nor does one of another lane move a directory.
func TestLateCounts(t *testing.T) {
	now, f := time.Unix(1000, 0), Default
	e := &entry{tree: trees("a/1")[0], lane: 1}
	e.counted(filecount.Count{Entries: 2}, 1, now, &f)
	e.lane = 1
	for name, c := range map[string]struct {
		lane  int
		began time.Time
		count filecount.Count
	}{
		"another lane": {0, now.Add(time.Second), filecount.Count{Entries: 1, Partial: true}},
		"older":        {1, now.Add(-time.Second), filecount.Count{Entries: 1, Partial: true}},
		"not begun":    {1, now.Add(time.Second), filecount.Count{Left: true}},
	} {
		if e.counted(c.count, c.lane, c.began, &f); e.last.Entries != 2 || e.lane != 1 {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if e.failed(errors.New("no"), 0, now, 0); e.err != nil {
		t.Error("a failure of another lane counts")
	}
}
