package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

// kernelOf has the parameters that the kubelet wants, changed.
func kernelOf(t *testing.T, change map[string]string) string {
	t.Helper()
	root := t.TempDir()
	values := map[string]string{
		"vm/overcommit_memory": "1\n", "vm/panic_on_oom": "0\n", "kernel/panic": "10\n", "kernel/panic_on_oops": "1\n",
		"kernel/keys/root_maxkeys": "1000000\n", "kernel/keys/root_maxbytes": "25000000\n",
	}
	for name, value := range change {
		values[name] = value
	}
	for name, value := range values {
		file := filepath.Join(root, name)
		must.Fatal(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Fatal(t, os.WriteFile(file, []byte(value), 0o644))
	}
	return root
}

func TestProtectKernel(t *testing.T) {
	t.Parallel()
	good := kernelOf(t, nil)
	for _, only := range []bool{true, false} {
		if changed, err := protectKernel(good, only); err != nil || len(changed) > 0 {
			t.Error(changed, err)
		}
	}
	root := kernelOf(t, map[string]string{"vm/overcommit_memory": "0\n", "kernel/panic": "0\n"})
	_, err := protectKernel(root, true)
	for _, want := range []string{"protectKernelDefaults: ", "vm.overcommit_memory is 0, want 1", "kernel.panic is 0, want 10"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(root, "kernel/panic")); string(text) != "0\n" {
		t.Errorf("only compared, kernel.panic became %q", text)
	}
	changed, err := protectKernel(root, false)
	if want := []string{"vm.overcommit_memory: 0 -> 1", "kernel.panic: 0 -> 10"}; err != nil || !slices.Equal(changed, want) {
		t.Errorf("set %q, %v, want %q", changed, err, want)
	}
	if _, err := protectKernel(root, true); err != nil {
		t.Errorf("after they were set: %v", err)
	}
	must.Fatal(t, os.Remove(filepath.Join(root, "kernel/panic_on_oops")))
	if _, err := protectKernel(root, false); err == nil || !strings.Contains(err.Error(), "kernel.panic_on_oops: ") {
		t.Errorf("a kernel without a parameter: %v", err)
	}
}
