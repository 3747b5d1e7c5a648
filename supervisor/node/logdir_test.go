package node

import (
	"os"
	"path/filepath"
	"testing"

	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

// TestMakeLogDirectory: the directory of all logs may be a link of the node, and none below it leads out.
func TestMakeLogDirectory(t *testing.T) {
	dir := t.TempDir()
	must.Fatal(t, os.Symlink("disk", filepath.Join(dir, "logs")))
	must.Fatal(t, os.MkdirAll(filepath.Join(dir, "disk"), 0o755))
	must.Fatal(t, os.MkdirAll(filepath.Join(dir, "elsewhere"), 0o755))
	top := filepath.Join(dir, "logs/pods")
	makes := makeLogDirectory(top)
	for range 2 {
		must.Fatal(t, makes(filepath.Join(top, "default_web_u1/app")))
	}
	must.Value(os.Stat(filepath.Join(dir, "disk/pods/default_web_u1/app")))(t)
	must.Fatal(t, os.Symlink("../../../elsewhere", filepath.Join(top, "default_web_u1/other")))
	must.Fails(t, makes(filepath.Join(top, "default_web_u1/other/x")), "through a link")
	must.Fails(t, makes(filepath.Join(top, "../x")), "beside it")
	left := must.Value(os.ReadDir(filepath.Join(dir, "elsewhere")))(t)
	must.Equal(t, len(left), 0, "made elsewhere")
}
