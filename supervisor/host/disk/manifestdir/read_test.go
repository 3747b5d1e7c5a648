package manifestdir

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

func write(t testing.TB, path, content string) {
	t.Helper()
	check.Fatal(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestReadTakesTheGoodAndNamesTheBad(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("b.yaml"), "b")
	write(t, at("a.yaml"), "a")
	write(t, at(".hidden"), "no")
	write(t, at("empty"), "")
	check.Fatal(t, os.Symlink(at("a.yaml"), at("link")))
	check.Fatal(t, os.Symlink(at("nothing"), at("broken")))
	check.Fatal(t, os.Symlink("loop", at("loop")))
	check.Fatal(t, os.Mkdir(at("dir"), 0o700))
	check.Fatal(t, syscall.Mkfifo(at("fifo"), 0o600))
	check.Fatal(t, os.Symlink(at("fifo"), at("link-to-fifo")))
	check.Fatal(t, os.Symlink("/dev/null", at("null")))
	socket := check.Value(net.Listen("unix", at("socket")))(t)
	defer socket.Close()
	big := check.Value(os.Create(at("big")))(t)
	check.Fatal(t, big.Truncate(100<<20))
	check.Fatal(t, big.Close())

	want := []struct{ name, data, err string }{
		{"a.yaml", "a", ""},
		{"b.yaml", "b", ""},
		{"big", "", "is longer than 10 MiB, the limit of a manifest"},
		{"broken", "", "is a link to " + at("nothing") + ", which does not exist"},
		{"dir", "", "is a directory: only files are read"},
		{"empty", "", ""},
		{"fifo", "", "is a FIFO"},
		{"link", "a", ""},
		{"link-to-fifo", "", "is a FIFO"},
		{"loop", "", "too many levels of symbolic links"},
		{"null", "", "is a device"},
		{"socket", "", "is a socket"},
	}
	files := check.Value(Read(context.Background(), dir))(t)
	check.Fatal(t, check.Is(len(files), len(want), "%d files: %v", len(files), files))
	for i, f := range files {
		w := want[i]
		if f.Name != at(w.name) || string(f.Data) != w.data || (f.Err == nil) != (w.err == "") {
			t.Errorf("file %d is %s %q %v, want %v", i, f.Name, f.Data, f.Err, w)
		}
		if f.Err != nil && (!strings.Contains(f.Err.Error(), w.err) || strings.Contains(f.Err.Error(), f.Name)) {
			t.Errorf("%s: %v, want %s", w.name, f.Err, w.err)
		}
	}
}

func TestReadASingleFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod.yaml")
	write(t, path, "x")
	files := check.Value(Read(context.Background(), path))(t)
	if len(files) != 1 || files[0].Name != path || string(files[0].Data) != "x" {
		t.Errorf("%v", files)
	}
}

func TestReadAPathThatIsNoDirectory(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(context.Background(), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	fifo := filepath.Join(dir, "fifo")
	check.Fatal(t, syscall.Mkfifo(fifo, 0o600))
	check.Says(t, check.Err(Read(context.Background(), fifo)), "is a FIFO: give a directory or a file", "FIFO")
	write(t, filepath.Join(dir, "x"), "")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Read(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestReadAnUnreadableFile(t *testing.T) {
	// A regular file that opens and does not read, for root too: address 0 of
	// this process.
	path := filepath.Join(t.TempDir(), "x")
	check.Fatal(t, os.Symlink("/proc/self/mem", path))
	if f := readFile(path); !errors.Is(f.Err, syscall.EIO) || f.Data != nil {
		t.Errorf("%v, %d bytes", f.Err, len(f.Data))
	}
}

// TestReadWhileItIsWritten: whatever a writer does meanwhile, a reading is one
// of the whole contents, or says that the file is being written or gone.
func TestReadWhileItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod.yaml")
	long, short := strings.Repeat("x", 1<<20), "y"
	write(t, path, short)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			switch i % 3 {
			case 0:
				_ = os.Remove(path)
			case 1:
				_ = os.WriteFile(path, []byte(long), 0o600)
			case 2:
				tmp := path + ".new"
				_ = os.WriteFile(tmp, []byte(short), 0o600)
				_ = os.Rename(tmp, path)
			}
		}
	}()
	for range 300 {
		f := readFile(path)
		if f.Err != nil && !errors.Is(f.Err, errChanged) && !errors.Is(f.Err, fs.ErrNotExist) {
			t.Fatalf("unexpected error %v", f.Err)
		}
	}
	close(stop)
	<-stopped
	write(t, path, long)
	if f := readFile(path); f.Err != nil || string(f.Data) != long {
		t.Errorf("%d bytes, %v", len(f.Data), f.Err)
	}
}
