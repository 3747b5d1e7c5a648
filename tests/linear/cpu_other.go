//go:build !linux

package linear

import "time"

var begun = time.Now()

// CPU is the time that has passed: tests are run on Linux alone, and compile elsewhere.
func CPU() time.Duration { return time.Since(begun) }
