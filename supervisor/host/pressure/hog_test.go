package pressure

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// hog allocates so many MiB in a cgroup until the test ends, and says when it began.
func hog(t *testing.T, dir string, mib int) time.Time {
	t.Helper()
	// dd fills one block of that size again and again.
	c := exec.Command("sh", "-c", fmt.Sprintf(
		"echo $$ > %s/cgroup.procs && exec dd if=/dev/zero of=/dev/null bs=%dM", dir, mib))
	check.Fatal(t, c.Start())
	t.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it may have ended
		c.Wait()         //nolint:errcheck // it was killed
	})
	return time.Now()
}
