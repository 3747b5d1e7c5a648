package check

import (
	"io"
	"sync"
	"testing"
)

// Log is the test's log for a logger. It drops what is written once the test ends: a goroutine of a library may outlive
// its test, and testing.T must not be told anything then.
func Log(t testing.TB) io.Writer {
	l := &testLog{to: t.Output()}
	t.Cleanup(l.end)
	return l
}

type testLog struct {
	mu sync.Mutex
	to io.Writer // nil once the test has ended
}

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to == nil {
		return len(b), nil
	}
	return l.to.Write(b)
}

func (l *testLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = nil
}
