package node

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/topology"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// pinned is set in a process that may run on one CPU only.
const pinned = "TROUPE_TEST_PINNED"

// TestPinnedAgent: an agent that may run on one CPU (taskset -c 0) still counts all CPUs of its machine.
func TestPinnedAgent(t *testing.T) {
	online := must.Value(topology.Online("/"))(t)
	if os.Getenv(pinned) != "" {
		lookAroundPinned(t, online.Size())
		return
	}
	if online.Size() == 1 {
		hosttest.Need(t, "two CPUs, one to hide", errors.New("this machine has one"))
	}
	child := exec.Command(os.Args[0], "-test.run=^TestPinnedAgent$", "-test.v")
	child.Env = append(os.Environ(), pinned+"=1")
	start := make(chan error)
	go func() {
		// Never unlocked: the thread ends with its goroutine, and its affinity with it.
		runtime.LockOSThread()
		var one unix.CPUSet
		one.Set(online.List()[0])
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			start <- err
			return
		}
		out, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestPinnedAgent") {
			t.Errorf("%v\n%s", err, out)
		}
		start <- nil
	}()
	must.Fatal(t, <-start)
}

// lookAroundPinned runs in the child.
func lookAroundPinned(t *testing.T, online int) {
	if n := runtime.NumCPU(); n != 1 {
		t.Fatalf("may run on %d CPUs, want 1", n)
	}
	m := must.Value(detectMachine(configOf(t, "failSwapOn: false"), "n"))(t)
	if q := m.capacity[v1.ResourceCPU]; m.cpus != online || q.String() != strconv.Itoa(online) || m.possible < online {
		t.Errorf("%d CPUs, %s in the Node object, %d possible; want %d", m.cpus, q.String(), m.possible, online)
	}
}
