package run

import (
	"bytes"
	"os"
	"strconv"
)

// peakRSS is the most memory that this process had at once, in bytes, so far:
// VmHWM of proc(5). 0 if unknown.
func peakRSS() uint64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("\nVmHWM:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, err := strconv.ParseUint(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
