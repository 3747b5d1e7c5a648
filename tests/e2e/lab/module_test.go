package lab

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// A test that lacks a module says so, and what to do, instead of finding no files.
//
//tier:unit
func TestSnapshotCRDsWithoutModule(t *testing.T) {
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOPROXY", "off")
	repository, err := Repository()
	if err != nil {
		t.Fatal(err)
	}
	_, err = SnapshotCRDs(t.Context(), repository)
	if err == nil || !strings.Contains(err.Error(), "go tool task modules") || !strings.Contains(err.Error(), "external-snapshotter") {
		t.Errorf("without the module: %v", err)
	}
}

//tier:unit
func TestSnapshotCRDs(t *testing.T) {
	repository := check.Value(Repository())(t)
	manifests := check.Value(SnapshotCRDs(t.Context(), repository))(t)
	for _, text := range manifests {
		check.Has(t, string(text), "kind: CustomResourceDefinition", "this is no kind of snapshots")
	}
}
