package iptables

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// program writes a program that keeps chains and rules as files of a directory, and its calls in a file.
func program(t *testing.T) (path, dir string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "iptables")
	script := `#!/bin/sh
shift 2 # -w 5
echo "$*" >> ` + dir + `/calls
[ -e ` + dir + `/broken ] && exit 3
[ -e ` + dir + `/locked ] && [ "$1" != -N ] && exit 4
what=$1; chain=$2; table=$4; shift 4
file="` + dir + `/$table.$chain"
case $what in
-N) [ ! -e "$file" ] && : > "$file" ;;
-S) [ -e "$file" ] ;;
-C) grep -qxF -- "$*" "$file" ;;
-A) echo "$*" >> "$file" ;;
-I) { echo "$*"; cat "$file"; } > "$file.new" && mv "$file.new" "$file" ;;
esac
`
	check.Fatal(t, os.WriteFile(path, []byte(script), 0o700)) //nolint:gosec // it is run
	for _, builtin := range []string{"INPUT", "OUTPUT"} {
		check.Fatal(t, os.WriteFile(filepath.Join(dir, "filter."+builtin), []byte("-j ACCEPT\n"), 0o600))
	}
	return path, dir
}

func calls(t *testing.T, dir string) []string {
	t.Helper()
	text := check.Value(os.ReadFile(filepath.Join(dir, "calls")))(t)
	check.Fatal(t, os.Remove(filepath.Join(dir, "calls")))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// TestLook: the chains are made, left alone while the canary is there, and made again after a flush, which may not be
// over yet.
func TestLook(t *testing.T) {
	path, dir := program(t)
	f := &family{command: []string{path}, firewall: true}
	look := func() {
		t.Helper()
		check.Fatal(t, f.look(t.Context()))
	}
	read := func(name string) string { return string(check.Value(os.ReadFile(filepath.Join(dir, name)))(t)) }
	look()
	check.Equal(t, read("mangle.KUBE-IPTABLES-HINT"), "", "the hint")
	check.Equal(t, read("filter.OUTPUT"), "-j KUBE-FIREWALL\n-j ACCEPT\n", "OUTPUT")
	check.Equal(t, read("filter.INPUT"), "-j KUBE-FIREWALL\n-j ACCEPT\n", "INPUT")
	rule := strings.Join(martians, " ") + "\n"
	check.Equal(t, read("filter.KUBE-FIREWALL"), rule, "the firewall")
	look()
	calls(t, dir)
	look()
	check.Same(t, calls(t, dir), []string{"-S KUBE-KUBELET-CANARY -t mangle"}, "calls while nothing changes")
	for _, gone := range []string{"mangle.KUBE-IPTABLES-HINT", "mangle.KUBE-KUBELET-CANARY"} {
		check.Fatal(t, os.Remove(filepath.Join(dir, gone)))
	}
	look()
	check.Equal(t, read("mangle.KUBE-IPTABLES-HINT"), "", "the hint after a flush")
	check.Fatal(t, os.Remove(filepath.Join(dir, "filter.KUBE-FIREWALL"))) // the flush goes on
	look()
	check.Equal(t, read("filter.KUBE-FIREWALL"), rule, "the firewall after the end of the flush")
	check.Equal(t, read("filter.OUTPUT"), "-j KUBE-FIREWALL\n-j ACCEPT\n", "OUTPUT after all")
}

// TestLocked: while another program has the lock nobody knows whether a rule is there, so none is put a second time.
func TestLocked(t *testing.T) {
	path, dir := program(t)
	f := &family{command: []string{path}, firewall: true}
	read := func(name string) string { return string(check.Value(os.ReadFile(filepath.Join(dir, name)))(t)) }
	locked := filepath.Join(dir, "locked")
	check.Fatal(t, f.look(t.Context()))
	for _, settled := range []bool{false, true} {
		check.Fatal(t, os.WriteFile(locked, nil, 0o600))
		f.settled = settled
		err := f.look(t.Context())
		check.Equal(t, err == nil, settled, "the look while it is locked, with %v", err)
		check.Equal(t, f.settled, settled, "settled")
		check.Fatal(t, os.Remove(locked))
		f.settled = false
		check.Fatal(t, f.look(t.Context()))
		check.Equal(t, read("filter.OUTPUT"), "-j KUBE-FIREWALL\n-j ACCEPT\n", "OUTPUT")
		check.Equal(t, read("filter.KUBE-FIREWALL"), strings.Join(martians, " ")+"\n", "the firewall")
	}
}

// TestSix: packets to the loopback address of IPv6 need no rule.
func TestSix(t *testing.T) {
	path, dir := program(t)
	f := &family{command: []string{path}}
	check.Fatal(t, f.look(t.Context()))
	check.Equal(t, check.Err(os.Stat(filepath.Join(dir, "filter.KUBE-FIREWALL"))) != nil, true, "there is no firewall")
	check.Error(t, check.Err(os.Stat(filepath.Join(dir, "mangle.KUBE-IPTABLES-HINT"))))
}

// TestProgramFails: one line of the log for each reason, and the chains once it works.
func TestProgramFails(t *testing.T) {
	path, dir := program(t)
	var log strings.Builder
	f := &family{command: []string{path}, log: zerolog.New(&log).Level(zerolog.InfoLevel)}
	check.Fatal(t, os.WriteFile(filepath.Join(dir, "broken"), nil, 0o600))
	for range 3 {
		f.tell(f.look(t.Context()))
	}
	check.Equal(t, strings.Count(log.String(), "\n"), 1, "lines of the log")
	check.Has(t, log.String(), "exit status 3", "the log")
	check.Fatal(t, os.Remove(filepath.Join(dir, "broken")))
	check.Error(t, f.look(t.Context()))
	none := &family{command: []string{filepath.Join(dir, "none")}}
	check.Says(t, none.look(t.Context()), "no such file", "the error without a program")
}

// TestProgramHangs: it holds nothing up, also not the end.
func TestProgramHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "iptables")
	check.Fatal(t, os.WriteFile(path, []byte("#!/bin/sh\nexec sleep 3600\n"), 0o700)) //nolint:gosec // it is run
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		New(Config{V4: []string{path}, V6: []string{path}}).Run(ctx)
		close(ended)
	}()
	cancel()
	check.Receive(t, ended)
}

// TestEachMinute: it looks at the start and then each minute.
func TestEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Second)
		defer cancel()
		looks := 0
		(&family{command: []string{"none"}}).keep(ctx, func(context.Context) error { looks++; return nil })
		check.Equal(t, looks, 11, "looks in ten minutes")
	})
}

// TestReal: the real programs take all of this. The chains are in a network namespace of their own.
func TestReal(t *testing.T) {
	hosttest.NeedRoot(t)
	holder := exec.Command("unshare", "--net", "sleep", "600")
	check.Fatal(t, holder.Start())
	defer func() {
		check.Error(t, holder.Process.Kill())
		_ = holder.Wait() // it was killed
	}()
	check.Until(t, "the namespace", func() bool {
		own := check.Value(os.Readlink("/proc/self/ns/net"))(t)
		other, err := os.Readlink("/proc/" + strconv.Itoa(holder.Process.Pid) + "/ns/net")
		return err == nil && other != own
	})
	inside := []string{"nsenter", "--net", "--target", strconv.Itoa(holder.Process.Pid)}
	for _, name := range []string{"iptables", "ip6tables"} {
		f := &family{command: append(inside[:len(inside):len(inside)], name), firewall: name == "iptables"}
		for range 2 {
			check.Fatal(t, f.look(t.Context()))
		}
		check.Equal(t, f.settled, true, "all of %s is there", name)
		out := check.Value(exec.Command(inside[0], append(inside[1:], name, "-S")...).Output())(t)
		want := 0
		if f.firewall {
			want = 1
			check.Has(t, string(out), "--ctstate RELATED,ESTABLISHED,DNAT -j DROP", "rules")
		}
		check.Equal(t, strings.Count(string(out), "-A OUTPUT -j KUBE-FIREWALL\n"), want, "jumps")
	}
}
