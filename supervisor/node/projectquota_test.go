package node

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
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
		dir := must.Value(os.MkdirTemp(memory, "troupe-test-"))(t)
		t.Cleanup(func() { must.Error(t, os.RemoveAll(dir)) })
		var log strings.Builder
		c := clustered(t, gate+"\npodLogsDir: "+dir+"/logs", "--root-dir", dir)
		d := &nodeDaemon{Options: Options{Config: c, Log: zerolog.New(&log)}, runtime: &containerRuntime{}}
		d.counters = must.Value(counters(&d.machine, "n1"))(t)
		must.Fatal(t, d.claimRoot(t.Context()))
		must.Fatal(t, d.openHost(t.Context()))
		if got := strings.Count(log.String(), "LocalStorageCapacityIsolationFSQuotaMonitoring has no effect"); got != want ||
			strings.Count(log.String(), "\n") != want || strings.Count(log.String(), dir) < want {
			t.Errorf("%q: the log says %s", gate, log.String())
		}
		for _, end := range d.closers {
			end()
		}
	}
}
