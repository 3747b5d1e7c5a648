package linear

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
)

// CPU is what this thread has used: what else the machine does does not count.
func CPU() time.Duration {
	var t unix.Timespec
	check.OK(unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}
