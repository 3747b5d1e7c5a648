package streams

import (
	"io"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestResizes: sizes of a terminal are read one after the other. What is none ends them, and takes no memory.
func TestResizes(t *testing.T) {
	const one, many = `{"Width":80,"Height":24} `, 1000
	q, n := resizes(t.Context(), strings.NewReader(strings.Repeat(one, many))), 0
	for size := range q {
		check.Equal(t, size.Width, 80, "the width")
		n++
	}
	check.Equal(t, n, many, "sizes")
	endless := &counted{of: io.MultiReader(strings.NewReader(one+`"`), zeros{})}
	n = 0
	for range resizes(t.Context(), endless) {
		n++
	}
	check.Equal(t, n, 1, "sizes before something that is none")
	check.AtMost(t, endless.read, 2*sizeLimit, "bytes that were read of it")
}

// zeros is a text without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}

type counted struct {
	of   io.Reader
	read int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.of.Read(b)
	c.read += n
	return n, err
}
