package node

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/config/rootdir"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// The gate has no effect where the file system of the root directory can't, and one line says so and why.
func TestProjectQuotasWithoutFileSystem(t *testing.T) {
	const memory = "/dev/shm" // a tmpfs has no project quotas
	var s unix.Statfs_t
	err := unix.Statfs(memory, &s)
	if err == nil && s.Type != unix.TMPFS_MAGIC {
		err = errors.New("it is something else")
	}
	hosttest.Need(t, "a tmpfs at "+memory, err)
	for gate, want := range map[string]int{"": 0, "featureGates: {LocalStorageCapacityIsolationFSQuotaMonitoring: true}": 1} {
		dir, err := os.MkdirTemp(memory, "troupe-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		var log strings.Builder
		c := clustered(t, gate+"\npodLogsDir: "+dir+"/logs", "--root-dir", dir)
		l := &launch{options: Options{Config: c, Log: zerolog.New(&log)}, config: c, runtime: &runtimeBelow{}}
		if l.counters, err = counters(&l.machine, "n1"); err != nil {
			t.Fatal(err)
		}
		if l.root, err = rootdir.Claim(dir); err != nil {
			t.Fatal(err)
		}
		l.closing(l.root.Close)
		if err := l.openHost(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), "LocalStorageCapacityIsolationFSQuotaMonitoring has no effect"); got != want ||
			strings.Count(log.String(), "\n") != want || strings.Count(log.String(), dir) < want {
			t.Errorf("%q: the log says %s", gate, log.String())
		}
		for _, end := range l.closers {
			end()
		}
	}
}
