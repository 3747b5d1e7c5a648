package plugintest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

// Named fails a test for an error that does not name the call and whose it was, or that is no text for people.
func Named(t testing.TB, verb, of string, err error) {
	t.Helper()
	const most = 3000
	text := fmt.Sprint(err)
	if !strings.Contains(text, verb) || !strings.Contains(text, of) || len(text) > most || !utf8.ValidString(text) {
		t.Errorf("%s: %.200q of %d bytes", verb, text, len(text))
	}
}

// Heap is how many bytes are in use.
func Heap() uint64 {
	runtime.GC()
	runtime.GC() // what sync.Pools hold, such as the buffers of gRPC, outlives one collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
