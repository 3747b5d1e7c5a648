package vm

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

//tier:unit
func TestVirtualizes(t *testing.T) {
	for text, want := range map[string]bool{
		"processor\t: 0\nflags\t\t: fpu vmx sse2\nbugs\t\t: svm\n": true,
		"processor\t: 0\nflags\t\t: fpu svm\n":                     true,
		"processor\t: 0\nflags\t\t: fpu sse2\nvmx flags\t: vnmi\n": false,
		"processor\t: 0\nflags\t\t: fpu svm_lock\nbugs\t\t: svm\n": false,
		"": false,
	} {
		check.Equal(t, virtualizes(text), want, "%q", text)
	}
}
