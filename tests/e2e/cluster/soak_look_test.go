package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

const (
	// soakPeriod is after how many rounds all is as it was, which is looked at then: each second one rolls, and each
	// third one kills the runtime.
	soakPeriod = 6
	// fewestLooks are enough to tell what is one more in each round from what comes and goes: see [soakKinds].
	fewestLooks = 8
)

// soakLook is what the agent, and its pods, take of the machine after some rounds, when all is quiet.
type soakLook [soakKindCount]int64

// The kinds of what is taken.
const (
	heapKind = iota
	anonymousKind
	filesKind
	goroutinesKind
	actorsKind
	watchesKind
	mountsKind
	cgroupsKind
	entriesKind
	logsKind
	runtimeKind
	soakKindCount
)

// soakKinds says of each kind how much more there may be in the end, and in percent of what there was. There are four
// periods of six rounds or more between the medians of the windows that are compared: what is left of each round shows
// in every count.
var soakKinds = [soakKindCount]struct {
	name    string
	more    int64
	percent int64
}{
	// Timelines of pods that have gone have a limit, which is reached soon. So do the events that later ones are compared
	// with: 4,096 of a kilobyte each, of which up to three quarters come between the windows (docs/decisions/0115).
	heapKind: {"bytes on the heap, without garbage", 5 << 20, 10},
	// The collector gives memory back when it likes.
	anonymousKind: {"bytes of anonymous memory", 12 << 20, 10},
	// Connections to the apiserver and the runtime come and go, with goroutines of theirs.
	filesKind:      {"open files", 6, 0},
	goroutinesKind: {"goroutines", 10, 0},
	// A pod that crashes is between two containers, or not.
	actorsKind:  {"actors", 2, 0},
	watchesKind: {"inotify watches", 2, 0},
	mountsKind:  {"mounts", 2, 0},
	cgroupsKind: {"cgroups", 2, 0},
	entriesKind: {"files and directories below the root directory", 4, 0},
	logsKind:    {"files and directories of logs", 4, 0},
	runtimeKind: {"sandboxes and containers", 4, 0},
}

// look counts.
func (s *soak) look(t *testing.T) (l soakLook) {
	t.Helper()
	l[heapKind] = s.held(t)
	l[anonymousKind] = s.memory(t, "RssAnon")
	tree := check.Value(s.Tree(t.Context()))(t)
	l[goroutinesKind], l[actorsKind] = int64(tree.Goroutines), int64(len(tree.Actors))
	l[runtimeKind] = s.inRuntime(t)
	for kind, count := range map[int]func() (int, error){
		filesKind:   func() (int, error) { return entries(fmt.Sprintf("/proc/%d/fd", s.PID())) },
		watchesKind: func() (int, error) { return linesWith("inotify ", fmt.Sprintf("/proc/%d/fdinfo/*", s.PID())) },
		mountsKind:  func() (int, error) { return linesWith(" "+s.Root()+"/", "/proc/self/mountinfo") },
		cgroupsKind: s.cgroupCount,
		entriesKind: func() (int, error) { return below(anything, s.Root()) },
		logsKind:    func() (int, error) { return below(butOfCrashes, s.Logs(), s.Links()) },
	} {
		l[kind] = int64(check.Value(count())(t))
	}
	return l
}

// inRuntime counts sandboxes, and containers but those of [crashing] pods. A container that is left of such a pod has
// its sandbox still.
func (s *soak) inRuntime(t *testing.T) int64 {
	t.Helper()
	world := s.world(t)
	n := len(world.Sandboxes)
	for _, c := range world.Containers {
		if !strings.HasPrefix(c.Labels["io.kubernetes.pod.name"], crashing) {
			n++
		}
	}
	return int64(n)
}

// podDirs is how many pods have a directory.
func (s *soak) podDirs() (int, error) { return entries(filepath.Join(s.Root(), "pods")) }

func (s *soak) cgroupCount() (int, error) { return below(anything, lab.CgroupDirs(s.cgroupRoot)...) }

func entries(dir string) (int, error) {
	all, err := os.ReadDir(dir)
	return len(all), err
}

// linesWith counts the lines with some words in files. One that is gone has none.
func linesWith(words, pattern string) (n int, err error) {
	defer check.Return(&err)
	for _, file := range check.Must(filepath.Glob(pattern)) {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, words) {
				n++
			}
		}
	}
	return n, nil
}

func anything(string, fs.DirEntry) bool { return true }

// crashing is how the names of pods begin whose containers crash. Of these, and of their logs, there is one more each
// second, until a collection, once a minute, or until the pod goes: how many there are says how long a round took.
const crashing = "crashes-"

// butOfCrashes leaves out the logs of containers that crash. Their directories count.
func butOfCrashes(path string, d fs.DirEntry) bool {
	return d.IsDir() || !strings.Contains(path, crashing)
}

// below counts what is so below directories. What goes meanwhile does not count.
func below(so func(path string, d fs.DirEntry) bool, dirs ...string) (n int, err error) {
	for _, dir := range dirs {
		walked := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && path != dir && so(path, d) {
				n++
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		err = errors.Join(err, walked)
	}
	return n, err
}

// soakLooks are the looks after each period.
type soakLooks []soakLook

// windows are a fifth of the looks, after the first tenth, and as many at the end.
func (s soakLooks) windows() (early, late soakLooks) {
	size, begin := max(3, len(s)/5), max(1, len(s)/10)
	return s[begin : begin+size], s[len(s)-size:]
}

// median is that of a kind.
func (s soakLooks) median(kind int) int64 {
	var all []int64
	for _, l := range s {
		all = append(all, l[kind])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// verdict is a table of all kinds, and those of which there is more and more.
func (s soakLooks) verdict() (table string, grown []string) {
	early, late := s.windows()
	for kind, k := range soakKinds {
		was, is := early.median(kind), late.median(kind)
		most := was + max(k.more, was*k.percent/100)
		line := fmt.Sprintf("| %s | %d | %d | ≤ %d |", k.name, was, is, most)
		table += line + "\n"
		if is > most {
			grown = append(grown, line)
		}
	}
	return table, grown
}

// TestSoakVerdict: what grows by one in each round is found, however many looks there were, and what is more in each
// fourth look is not.
//
//tier:unit
func TestSoakVerdict(t *testing.T) {
	for n := fewestLooks; n <= 80; n++ {
		for kind, k := range soakKinds {
			looks := make(soakLooks, n)
			for i := range looks {
				for other := range looks[i] {
					looks[i][other] = 1000
					if i%4 == 0 {
						looks[i][other] += 2 * k.more
					}
				}
			}
			_, grown := looks.verdict()
			check.None(t, grown, "what comes and goes in %d looks", n)
			for i := range looks {
				// Memory is told from its noise if a sixteenth of that is left of each round.
				looks[i][kind] = 1000 + max(1, k.more/16)*soakPeriod*int64(i)
			}
			if _, grown = looks.verdict(); len(grown) != 1 || !strings.Contains(grown[0], k.name) {
				t.Errorf("one more, or a sixteenth of the bar, of %s in each round, in %d looks: %v", k.name, n, grown)
			}
		}
	}
}
