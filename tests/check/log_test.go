package check

import (
	"io"
	"testing"
)

func TestLogAfterItsTest(t *testing.T) {
	var log io.Writer
	t.Run("test", func(t *testing.T) {
		log = Log(t)
		Value(log.Write([]byte("while it runs\n")))(t)
	})
	// A test's own log panics then.
	n := Value(log.Write([]byte("too late\n")))(t)
	Equal(t, n, len("too late\n"), "bytes written")
}
