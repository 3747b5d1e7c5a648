package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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
