// Package inuse finds out what other processes of this machine hold: ports that they listen on, and locks on files. It
// only reads what the kernel shows (proc(5)): it opens no port, and none of the files.
package inuse

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is one that holds something. The zero Process is not known: it is hidden, or has ended.
type Process struct {
	PID int
	// Name is the name of the program that it was started as.
	Name string
}

func (p Process) String() string {
	if p.PID == 0 {
		return "another process"
	}
	return fmt.Sprintf("%s (process %d)", p.Name, p.PID)
}

// Port tells whether a process listens on a TCP port so that a listener at that address, the unspecified one for all,
// would be refused. proc is where the kernel shows processes: /proc.
func Port(proc string, address netip.AddrPort) (by Process, used bool) {
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(proc, "net", table))
		if err != nil {
			continue // a kernel without that family
		}
		inode, found := listener(bufio.NewScanner(f), address)
		f.Close() //nolint:errcheck // it was only read
		if found {
			return holder(proc, func(link string) bool { return link == "socket:["+inode+"]" }), true
		}
	}
	return Process{}, false
}

// listener is the inode of a listening socket of the table that has the address, or all.
func listener(table *bufio.Scanner, address netip.AddrPort) (inode string, found bool) {
	const listening, fields = "0A", 10
	for table.Scan() {
		f := strings.Fields(table.Text())
		if len(f) < fields || f[3] != listening {
			continue
		}
		has, ok := parseAddress(f[1])
		if !ok || has.Port() != address.Port() {
			continue
		}
		a, b := has.Addr(), address.Addr().Unmap().WithZone("")
		// Go listens to both families at an unspecified address.
		if a == b || b.IsUnspecified() || a.IsUnspecified() && (a.Is6() || b.Is4()) {
			return f[9], true
		}
	}
	return "", false
}

// parseAddress reads 0100007F:280A: words of the address in the order of this machine's bytes, and the port.
func parseAddress(text string) (netip.AddrPort, bool) {
	address, port, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	n, e := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || e != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), ok
}

// Locked tells whether a process has a lock on a file (flock(2)).
func Locked(proc, path string) (by Process, locked bool) {
	var file unix.Stat_t
	if err := unix.Stat(path, &file); err != nil {
		return Process{}, false
	}
	table, err := os.ReadFile(filepath.Join(proc, "locks"))
	if err != nil {
		return Process{}, false
	}
	device := fmt.Sprintf("%02x:%02x", unix.Major(file.Dev), unix.Minor(file.Dev))
	for line := range strings.Lines(string(table)) {
		// 1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF; one with -> waits for the lock
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" {
			continue
		}
		on, same := strings.CutSuffix(f[5], ":"+strconv.FormatUint(file.Ino, 10))
		if !same {
			continue
		}
		by := process(proc, f[4])
		// Some file systems show another device to programs than to the kernel.
		if on == device || by.PID != 0 && opens(proc, f[4], func(link string) bool { return link == path }) {
			return by, true
		}
	}
	return Process{}, false
}

// holder is the process that has an open file.
func holder(proc string, is func(link string) bool) Process {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return Process{}
	}
	for _, e := range entries {
		if p := process(proc, e.Name()); p.PID != 0 && opens(proc, e.Name(), is) {
			return p
		}
	}
	return Process{}
}

func opens(proc, pid string, is func(link string) bool) bool {
	dir := filepath.Join(proc, pid, "fd")
	files, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, f := range files {
		if link, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && is(link) {
			return true
		}
	}
	return false
}

func process(proc, pid string) Process {
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 {
		return Process{}
	}
	line, err := os.ReadFile(filepath.Join(proc, pid, "cmdline"))
	if err != nil {
		return Process{}
	}
	name, _, _ := strings.Cut(string(line), "\x00")
	return Process{PID: n, Name: filepath.Base(name)}
}
