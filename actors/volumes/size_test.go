package volumes

import (
	"testing"
	"unsafe"
)

// TestSmall: 150,000 simulated pods count.
func TestSmall(t *testing.T) {
	if n := unsafe.Sizeof(user{}); n > 256 {
		t.Errorf("a pod takes %d bytes, at most 256", n)
	}
}
