package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestConfig(t *testing.T) {
	for _, c := range []Config{{}, {Root: "a", LogRoot: "/b"}, {Root: "/a", LogRoot: "b"}} {
		check.Fails(t, check.Err(New(c)), "%+v is taken", c)
	}
}

// TestNew: the directories have the modes that a kubelet gives them.
func TestNew(t *testing.T) {
	root := t.TempDir()
	h := check.Value(New(Config{Root: filepath.Join(root, "kubelet"), LogRoot: filepath.Join(root, "logs")}))(t)
	for _, name := range []string{"kubelet", "kubelet/pods", "logs"} {
		hosttest.WantMode(t, filepath.Join(root, name), 0o750|os.ModeDir)
	}
	check.Fatal(t, h.Close())
}
