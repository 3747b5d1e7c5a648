package vm

import "testing"

//tier:unit
func TestVirtualizes(t *testing.T) {
	for text, want := range map[string]bool{
		"processor\t: 0\nflags\t\t: fpu vmx sse2\nbugs\t\t: svm\n": true,
		"processor\t: 0\nflags\t\t: fpu svm\n":                     true,
		"processor\t: 0\nflags\t\t: fpu sse2\nvmx flags\t: vnmi\n": false,
		"processor\t: 0\nflags\t\t: fpu svm_lock\nbugs\t\t: svm\n": false,
		"": false,
	} {
		if got := virtualizes(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
