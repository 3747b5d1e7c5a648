package pullrecords_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/pullrecords"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait makes a call that waits for its answer.
func wait(call func(done func(error))) error {
	got := make(chan error, 1)
	call(func(err error) { got <- err })
	return <-got
}

func load(t *testing.T, s *pullrecords.Store) (shown string, err error) {
	got := make(chan error, 1)
	s.Load(t.Context(), func(all port.PullFiles, err error) {
		var lines []string
		for _, f := range append(all.Intents, all.Records...) {
			lines = append(lines, fmt.Sprintf("%v %s %s %v", f.Intent, f.Name, f.Data, f.Err != nil))
		}
		shown = strings.Join(append(lines, all.Aside...), "|")
		got <- err
	})
	return shown, <-got
}

func TestStore(t *testing.T) {
	root := t.TempDir()
	s := pullrecords.New(root)
	want := func(what, want string) {
		t.Helper()
		if got, err := load(t, pullrecords.New(root)); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want("nothing", "")
	for _, dir := range []string{"pulling", "pulled"} {
		if info, err := os.Stat(filepath.Join(root, "image_manager", dir)); err != nil || !info.IsDir() {
			t.Errorf("%s: %v", dir, err)
		}
	}
	must(wait(func(d func(error)) { s.SaveIntent(t.Context(), "sha256-i", []byte("I"), d) }))
	want("an intent", "true sha256-i I false")
	must(wait(func(d func(error)) { s.SavePulled(t.Context(), "sha256-r", []byte("R"), "sha256-i", d) }))
	want("a record instead", "false sha256-r R false")
	must(wait(func(d func(error)) { s.SavePulled(t.Context(), "sha256-r", []byte("S"), "", d) }))
	must(wait(func(d func(error)) { s.SavePulled(t.Context(), "", nil, "sha256-absent", d) }))
	want("replaced", "false sha256-r S false")
	pulled := filepath.Join(root, "image_manager", "pulled")
	for name, data := range map[string]string{".sha256-x": "half", "sha256-1.tmp": "half", "other": "of people"} {
		must(os.WriteFile(filepath.Join(pulled, name), []byte(data), 0o600))
	}
	want("what is no record", "false sha256-r S false")
	if files, _ := filepath.Glob(filepath.Join(pulled, "*")); len(files) != 2 {
		t.Errorf("an unfinished write is left, or a file of people is gone: %v", files)
	}
	where := ""
	must(wait(func(d func(error)) {
		s.SetAside(t.Context(), port.PullFile{Name: "sha256-r"}, func(w string, err error) { where = w; d(err) })
	}))
	if data, err := os.ReadFile(where); string(data) != "S" || err != nil {
		t.Errorf("%s: %q, %v", where, data, err)
	}
	want("set aside", "sha256-r")
	must(wait(func(d func(error)) { s.RemovePulled(t.Context(), "sha256-r", d) }))
	must(wait(func(d func(error)) { s.RemovePulled(t.Context(), "sha256-r", d) }))
	want("gone", "")
	must(os.Mkdir(filepath.Join(pulled, "sha256-d"), 0o700))
	want("a directory in its place", "false sha256-d  true")
	if info, err := os.Stat(pulled); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestNoDisk: what can't be written is told.
func TestNoDisk(t *testing.T) {
	root := t.TempDir()
	check.Fatal(t, os.WriteFile(filepath.Join(root, "image_manager"), nil, 0o600))
	s := pullrecords.New(root)
	check.Fails(t, wait(func(d func(error)) { s.SaveIntent(t.Context(), "sha256-i", nil, d) }), "an intent was written")
	check.Fails(t, check.Err(load(t, s)), "records were read")
}
