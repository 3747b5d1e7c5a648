package node

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

func TestSetOOMScore(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "oom_score_adj")
	if err := setOOMScore(file, -999); err == nil || !strings.Contains(err.Error(), "OOMScoreAdjust=-999") {
		t.Errorf("without the file: %v", err)
	}
	must.Fatal(t, os.WriteFile(file, []byte("0\n"), 0o600))
	must.Error(t, setOOMScore(file, -999))
	if text, err := os.ReadFile(file); string(text) != "-999" || err != nil {
		t.Errorf("the file says %q, %v", text, err)
	}
	// The kernel may refuse a value that is there already: it is not written.
	must.Fatal(t, os.WriteFile(file, []byte("-999\n"), 0o600))
	must.Error(t, setOOMScore(file, -999))
	if text, _ := os.ReadFile(file); string(text) != "-999\n" {
		t.Errorf("it was written again: %q", text)
	}
}

// TestMemoryLimit: the smallest limit above the agent counts, unless a setting says otherwise.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	slice, service := resourceuse.Bound{Path: "/system.slice", Limit: 1 << 30}, resourceuse.Bound{Path: "/system.slice/kubelet.service", Limit: 128 << 20}
	for name, c := range map[string]struct {
		set    string
		bounds []resourceuse.Bound
		files  uint64
		want   int64
		of     string
	}{
		"none":         {},
		"of the unit":  {bounds: []resourceuse.Bound{slice, service}, want: 96 << 20, of: service.Path},
		"of all above": {bounds: []resourceuse.Bound{{Path: "/", Limit: 64 << 20}, service}, want: 48 << 20, of: "/"},
		"beside files": {bounds: []resourceuse.Bound{{Limit: 128 << 20, Shared: 28 << 20}}, files: 20 << 20, want: 60 << 20},
		"all files":    {bounds: []resourceuse.Bound{{Limit: 128 << 20, Shared: 128 << 20}}, files: 1 << 20, want: 24 << 20},
		"by a setting": {set: "100MiB", bounds: []resourceuse.Bound{service}},
		"off":          {set: "off", bounds: []resourceuse.Bound{service}},
		"hardly any":   {bounds: []resourceuse.Bound{{Path: "/", Limit: 1<<64 - 1}}, want: (1<<63 - 1) / 4 * 3, of: "/"},
	} {
		got, of := memoryLimit(c.set, c.bounds, c.files)
		must.Equal(t, got, c.want, "%s: the limit", name)
		must.Equal(t, of.Path, c.of, "%s: the cgroup", name)
	}
}

// TestFilesFit: files in memory leave the agent what it needs to go on.
func TestFilesFit(t *testing.T) {
	t.Parallel()
	unit := resourceuse.Bound{Path: "/system.slice/kubelet.service", Limit: 128 << 20, Available: 40 << 20}
	for name, c := range map[string]struct {
		bytes, old int64
		bounds     []resourceuse.Bound
		want       string
	}{
		"no limit": {bytes: 1 << 40},
		"half":     {bytes: 20 << 20, bounds: []resourceuse.Bound{unit}},
		"another":  {bytes: 30 << 20, old: 20 << 20, bounds: []resourceuse.Bound{unit}},
		"both are there for a while": {
			bytes: 41 << 20, old: 100 << 20, bounds: []resourceuse.Bound{unit}, want: "has 40Mi left",
		},
		"more": {bytes: 20<<20 + 1, bounds: []resourceuse.Bound{unit}, want: "the node agent may have 128Mi of memory " +
			"(cgroup /system.slice/kubelet.service), has 40Mi left, and files may take half of that"},
		"of one above": {bytes: 1 << 20, bounds: []resourceuse.Bound{{Path: "/", Limit: 1 << 30, Available: 1 << 20}, unit}, want: "1Gi"},
	} {
		if err := fits(c.bytes, c.old, c.bounds); c.want == "" {
			must.Fatal(t, err)
		} else {
			must.Says(t, err, c.want, "%s", name)
		}
	}
}

// TestMemoryLimitChanges: a limit that is changed while the agent runs is put in force, and said once. Files in memory
// lower it without a word.
func TestMemoryLimitChanges(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	var lines bytes.Buffer
	var set []int64
	var growth []int
	log := zerolog.New(&lines)
	m := ownMemory{
		log: &log, set: func(limit int64) { set = append(set, limit) },
		grow: func(percent int) { growth = append(growth, percent) },
	}
	unit := func(limit, files uint64) []resourceuse.Bound {
		return []resourceuse.Bound{{Path: "/unit", Limit: limit, Shared: files}}
	}
	for _, bounds := range [][]resourceuse.Bound{
		nil, unit(400, 0), unit(400, 0), unit(400, 200), unit(200, 0), nil, nil, unit(100, 0),
	} {
		m.look(bounds)
	}
	must.Equal(t, fmt.Sprint(set), fmt.Sprint([]int64{300, 300, 150, 150, math.MaxInt64, 75}), "limits")
	must.Equal(t, fmt.Sprint(growth), "[50 50 100 50]", "percent by which the heap grows, whenever the limit is another one")
	must.Count(t, bytes.Count(lines.Bytes(), []byte("\n")), 4, "lines: %d")
}

// TestSetOpenFiles: what the kernel refuses is said, and as much as it allows is set.
func TestSetOpenFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now  unix.Rlimit
		may  bool // raise the hard limit
		want unix.Rlimit
		says string
	}{
		"raised":   {now: unix.Rlimit{Cur: 1024, Max: 4096}, may: true, want: unix.Rlimit{Cur: 10_000, Max: 10_000}},
		"lowered":  {now: unix.Rlimit{Cur: 20_000, Max: 20_000}, want: unix.Rlimit{Cur: 10_000, Max: 10_000}},
		"refused":  {now: unix.Rlimit{Cur: 1024, Max: 4096}, want: unix.Rlimit{Cur: 4096, Max: 4096}, says: "it is 4096"},
		"no gain":  {now: unix.Rlimit{Cur: 9, Max: 9}, want: unix.Rlimit{Cur: 9, Max: 9}, says: "LimitNOFILE=10000"},
		"the same": {now: unix.Rlimit{Cur: 10_000, Max: 10_000}, want: unix.Rlimit{Cur: 10_000, Max: 10_000}},
	} {
		now := c.now
		err := setOpenFiles(openFiles{
			get: func(_ int, l *unix.Rlimit) error { *l = now; return nil },
			set: func(_ int, l *unix.Rlimit) error {
				if l.Max > now.Max && !c.may {
					return unix.EPERM
				}
				now = *l
				return nil
			},
		}, 10_000)
		if said := err != nil; said != (c.says != "") || said && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if now != c.want {
			t.Errorf("%s: the limit is %+v, want %+v", name, now, c.want)
		}
	}
}
