package podlogs

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/containerlogs"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var appLog = port.LogRef{Namespace: "default", Pod: "web", UID: "u1", Container: "app", Attempt: 3}

// answerOf waits for a call of the port.
func answerOf[T any](t *testing.T, call func(done func(T, error))) (T, error) {
	t.Helper()
	type result struct {
		v   T
		err error
	}
	got := make(chan result, 1)
	call(func(v T, err error) { got <- result{v, err} })
	r := <-got
	return r.v, r.err
}

// lab is a directory of logs.
type lab struct {
	*Logs
	t    *testing.T
	root string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	root := t.TempDir()
	return &lab{Logs: newLogs(t, filepath.Join(root, "logs")), t: t, root: root}
}

func newLogs(t testing.TB, path string) *Logs {
	t.Helper()
	at := agentdir.At(path, 0o755)
	t.Cleanup(func() { check.Error(t, at.Close()) })
	return New(at)
}

func (l *lab) step(s containerlogs.Step) error {
	l.t.Helper()
	_, err := answerOf(l.t, func(done func(struct{}, error)) {
		l.StepLog(l.t.Context(), appLog, s, func(err error) { done(struct{}{}, err) })
	})
	return err
}

func (l *lab) mustStep(s containerlogs.Step) {
	l.t.Helper()
	if err := l.step(s); err != nil {
		l.t.Fatalf("%T: %v", s, err)
	}
}

func (l *lab) lookAtLog() containerlogs.Log {
	l.t.Helper()
	log := check.Value(
		answerOf(l.t, func(done func(containerlogs.Log, error)) { l.LookAtLog(l.t.Context(), appLog, done) }))(l.t)
	slices.Sort(log.Beside)
	return log
}

func (l *lab) logPath(name string) string {
	return filepath.Join(l.root, "logs", filepath.Dir(appLog.String()), name)
}

// TestDirectoryIsReplaced: logs are looked at where they are written, which is where the path leads now.
func TestDirectoryIsReplaced(t *testing.T) {
	l := newLab(t)
	hosttest.Write(t, l.logPath("3.log"), "one\n")
	check.Equal(t, l.lookAtLog().Size, 4, "bytes of the log")
	logs := filepath.Join(l.root, "logs")
	check.Fatal(t, os.Rename(logs, logs+".old"))
	hosttest.Write(t, l.logPath("3.log"), "three\n")
	check.Equal(t, l.lookAtLog().Size, 6, "bytes of the log in another directory")
}

func TestStepLog(t *testing.T) {
	l := newLab(t)
	const old, newer = "20261121-100000", "20261121-110000"
	hosttest.Write(t, l.logPath("3.log"), "one\n")
	hosttest.Write(t, l.logPath("13.log"), "another's")
	hosttest.Write(t, l.logPath("3.log.bak"), "")
	check.Fatal(t, os.Symlink("/etc/passwd", l.logPath("3.log."+newer+".x")))
	if got := l.lookAtLog(); !got.Current || got.Size != 4 || !slices.Equal(got.Beside, []string{"bak"}) {
		t.Fatalf("%+v", got)
	}
	l.mustStep(containerlogs.Rotate{To: old})
	if got := l.lookAtLog(); got.Current || !slices.Equal(got.Beside, []string{old, "bak"}) {
		t.Fatalf("%+v", got)
	}
	l.mustStep(containerlogs.Restore{From: old})
	l.mustStep(containerlogs.Rotate{To: old})
	hosttest.Write(t, l.logPath("3.log"), "two\n")
	l.mustStep(containerlogs.Restore{From: old}) // nothing that the runtime made is replaced
	check.Equal(t, string(check.Value(os.ReadFile(l.logPath("3.log")))(t)), "two\n", "it")
	check.Fails(t, l.step(containerlogs.Rotate{To: old}), "a rotated file was replaced")
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	check.Fatal(t, os.Chtimes(l.logPath("3.log."+old), at, at))
	const linked = "20261121-080000"
	check.Fatal(t, os.Symlink("3.log."+old, l.logPath("3.log."+linked)))
	check.Fails(t, l.step(containerlogs.Compress{Suffix: linked}), "a link was followed")
	hosttest.WantGone(t, l.logPath("3.log."+linked+".gz"))
	check.Fatal(t, os.Remove(l.logPath("3.log."+linked)))
	l.mustStep(containerlogs.Compress{Suffix: old})
	l.mustStep(containerlogs.Compress{Suffix: old}) // it is gone
	f := check.Value(os.Open(l.logPath("3.log." + old + ".gz")))(t)
	defer f.Close() //nolint:errcheck // it was only read
	if info, err := f.Stat(); err != nil || !info.ModTime().Equal(at) {
		t.Errorf("%v, %v", info.ModTime(), err)
	}
	z := check.Value(gzip.NewReader(f))(t)
	check.Equal(t, string(check.Value(io.ReadAll(z))(t)), "one\n", "it")
	if got := l.lookAtLog(); !slices.Equal(got.Beside, []string{old + ".gz", "bak"}) {
		t.Errorf("%+v", got)
	}
	// Another was killed as it compressed: what it left has to go first.
	hosttest.Write(t, l.logPath("3.log."+newer), "three")
	hosttest.Write(t, l.logPath("3.log."+newer+".tmp"), "thr")
	check.Fails(t, l.step(containerlogs.Compress{Suffix: newer}), "an unfinished file was used")
	l.mustStep(containerlogs.Remove{Suffixes: []string{newer + ".tmp", "was-never-there"}})
	l.mustStep(containerlogs.Compress{Suffix: newer})

	sizes, err := answerOf(t, func(done func([]int64, error)) {
		other := appLog
		other.Attempt = 4
		l.LogSizes(t.Context(), []port.LogRef{appLog, other, {Namespace: "a", Pod: "b", UID: "c", Container: "d"}}, done)
	})
	if err != nil || !slices.Equal(sizes, []int64{4, -1, -1}) {
		t.Errorf("%v, %v", sizes, err)
	}
	hosttest.Write(t, l.logPath("0.log."+old), "")
	rotated, err := answerOf(t, func(done func([]port.LogRef, error)) { l.RotatedLogs(t.Context(), done) })
	first := appLog
	first.Attempt = 0
	if err != nil || !slices.Equal(rotated, []port.LogRef{first, appLog}) {
		t.Errorf("%v, %v", rotated, err)
	}
	_, err = answerOf(t, func(done func(containerlogs.Log, error)) { l.LookAtLog(t.Context(), port.LogRef{Namespace: "x"}, done) })
	check.Equal(t, port.KindOf(err), port.NotFound, "%v", err)
	// Nothing leads out of the directory of logs.
	check.Fatal(t, os.Symlink(l.root, filepath.Join(l.root, "logs", "default_bad_u2")))
	hosttest.Write(t, filepath.Join(l.root, "app", "0.log.20261121-100000"), "")
	again, err := answerOf(t, func(done func([]port.LogRef, error)) { l.RotatedLogs(t.Context(), done) })
	if err != nil || !slices.Equal(again, rotated) {
		t.Errorf("%v, %v", again, err)
	}
}

func TestPruneLogs(t *testing.T) {
	l := newLab(t)
	for _, name := range []string{"1.log", "1.log.20261121-100000.gz", "2.log.20261121-100000", "3.log", "3.log.20261121-100000", "10.log", "notes"} {
		hosttest.Write(t, l.logPath(name), "x")
	}
	check.Value(answerOf(t, func(done func(struct{}, error)) {
		gone := appLog
		gone.UID = "u9"
		l.PruneLogs(t.Context(), []port.LogRef{gone, appLog}, func(err error) { done(struct{}{}, err) })
	}))(t)
	entries := check.Value(os.ReadDir(filepath.Dir(l.logPath("x"))))(t)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	check.Same(t, left, []string{"10.log", "3.log", "3.log.20261121-100000", "notes"}, "left")
}

// BenchmarkLogSizes is what an idle node with a hundred pods pays at each look.
func BenchmarkLogSizes(b *testing.B) {
	root := b.TempDir()
	h := newLogs(b, filepath.Join(root, "logs"))
	var refs []port.LogRef
	for i := range 100 {
		ref := appLog
		ref.UID = types.UID(strconv.Itoa(i))
		refs = append(refs, ref)
		path := filepath.Join(root, "logs", ref.String())
		check.Fatal(b, os.MkdirAll(filepath.Dir(path), 0o700))
		check.Fatal(b, os.WriteFile(path, []byte("x"), 0o600))
	}
	for b.Loop() {
		done := make(chan error, 1)
		h.LogSizes(b.Context(), refs, func(_ []int64, err error) { done <- err })
		check.Fatal(b, <-done)
	}
}
