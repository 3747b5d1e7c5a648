package inuse

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestPort holds what is found against what the kernel refuses.
func TestPort(t *testing.T) {
	for _, tt := range []struct {
		has, asked string
		used       bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "127.0.0.2", false},
		{"127.0.0.1", "0.0.0.0", true},
		{"127.0.0.1", "::", true},
		{"127.0.0.1", "::1", false},
		{"0.0.0.0", "127.0.0.1", true},
		{"0.0.0.0", "::1", true},
		{"::", "127.0.0.1", true},
		{"::", "::1", true},
		{"::1", "127.0.0.1", false},
		{"::1", "::", true},
		{"::1", "0.0.0.0", true},
	} {
		t.Run(tt.has+" "+tt.asked, func(t *testing.T) {
			l, err := net.Listen("tcp", net.JoinHostPort(tt.has, "0"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			port := netip.MustParseAddrPort(l.Addr().String()).Port()
			at := netip.AddrPortFrom(netip.MustParseAddr(tt.asked), port)
			by, used := Port("/proc", at)
			if used != tt.used || used && (by.PID != os.Getpid() || by.Name != filepath.Base(os.Args[0])) {
				t.Errorf("%v by %v, want %v", used, by, tt.used)
			}
			again, err := net.Listen("tcp", at.String())
			check.Equal(t, err != nil, tt.used, "the kernel: %v", err)
			if err == nil {
				again.Close()
			}
		})
	}
	if by, used := Port("/nowhere", netip.MustParseAddrPort("0.0.0.0:1")); used {
		t.Errorf("used by %v", by)
	}
}

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if by, locked := Locked("/proc", path); locked {
		t.Errorf("a file that is not there is locked by %v", by)
	}
	f := check.Value(os.Create(path))(t)
	defer f.Close()
	if by, locked := Locked("/proc", path); locked {
		t.Errorf("locked by %v", by)
	}
	check.Fatal(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	if by, locked := Locked("/proc", path); !locked || by.PID != os.Getpid() {
		t.Errorf("%v, %v; want locked by this process", locked, by)
	}
	check.Equal(t, (Process{}).String(), "another process", "it")
}
