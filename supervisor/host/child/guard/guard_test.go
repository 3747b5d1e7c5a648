package guard

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestTail: the end of what was written is kept, however it came, and little of it costs anything.
func TestTail(t *testing.T) {
	for _, size := range []int{1, 3, 9, 10, 11, 35} {
		tail, all := Tail{Limit: 10}, ""
		for i := range 50 {
			part := strings.Repeat(string(rune('a'+i%26)), size)
			all += part
			check.Value(tail.Write([]byte(part)))(t)
			check.Equal(t, tail.String(), all[max(0, len(all)-10):], "after %d writes of %d", i+1, size)
		}
	}
	tail, part := Tail{Limit: 64 << 10}, make([]byte, 32<<10)
	write := func() { tail.Write(part) } //nolint:errcheck // it has no error
	for range 10 {
		write()
	}
	check.Equal(t, testing.AllocsPerRun(100, write), 0, "memory for one more write")
}
