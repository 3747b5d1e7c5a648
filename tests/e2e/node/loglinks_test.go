package node

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// collector reads logs as log collectors do: it looks for links in a directory, follows what they
// lead to, and takes what it knows of a log from the name of its link.
type collector struct {
	dir, logs string
	stop      chan struct{}
	done      sync.WaitGroup

	mu     sync.Mutex
	follow map[string]*followed // by name of the link
	late   []string             // logs that could be read before they had a link
	seen   map[string]bool      // logs, of which that was asked
}

// followed is one log: its files in the order in which they were written.
type followed struct {
	target string
	files  []*logFile
}

// logFile is a file of a log, and what was read of it.
type logFile struct {
	file *os.File
	read bytes.Buffer
}

// collect begins to look.
func collect(t *testing.T, dir, logs string) *collector {
	c := &collector{dir: dir, logs: logs, stop: make(chan struct{}), follow: map[string]*followed{}, seen: map[string]bool{}}
	c.done.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-c.stop:
				return
			case <-tick.C:
				if err := c.look(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	t.Cleanup(func() {
		close(c.stop)
		c.done.Wait()
		for _, f := range c.follow {
			for _, part := range f.files {
				part.file.Close()
			}
		}
	})
	return c
}

func (c *collector) look() (err error) {
	defer check.Return(&err)
	c.mu.Lock()
	defer c.mu.Unlock()
	logs := check.Must(filepath.Glob(filepath.Join(c.logs, "*", "*", "*.log")))
	var fresh []string // first the logs, and then the links
	for _, log := range logs {
		if info, err := os.Stat(log); err == nil && info.Size() > 0 && !c.seen[log] {
			c.seen[log] = true
			fresh = append(fresh, log)
		}
	}
	links := check.Must(filepath.Glob(filepath.Join(c.dir, "*.log")))
	var targets []string
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue // no link, or gone
		}
		targets = append(targets, target)
		f := c.follow[filepath.Base(link)]
		if f == nil {
			f = &followed{target: target}
			c.follow[filepath.Base(link)] = f
		}
		check.OK(f.readOn(link))
	}
	for _, log := range fresh {
		if !slices.Contains(targets, log) {
			c.late = append(c.late, log)
		}
	}
	return nil
}

// readOn reads what has come. A file that was rotated is read on: the runtime writes to it for a moment
// after the next one is there, which is why collectors keep it open for some seconds.
func (f *followed) readOn(link string) error {
	now, err := os.Stat(link)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // not started yet, or being rotated
		return err
	}
	if err == nil && !f.has(now) {
		file, err := os.Open(link)
		if err == nil {
			f.files = append(f.files, &logFile{file: file})
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, part := range f.files {
		if _, err := io.Copy(&part.read, part.file); err != nil {
			return err
		}
	}
	return nil
}

// has: this file is open already.
func (f *followed) has(file fs.FileInfo) bool {
	return slices.ContainsFunc(f.files, func(part *logFile) bool {
		open, err := part.file.Stat()
		return err == nil && os.SameFile(open, file)
	})
}

// text is what was read through a link so far, as the container wrote it.
func (c *collector) text(name string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.follow[name]
	if f == nil {
		return "", fmt.Errorf("no link %s was ever there", name)
	}
	var text strings.Builder
	var all []byte
	for _, part := range f.files {
		all = append(all, part.read.Bytes()...)
	}
	lines := bufio.NewScanner(bytes.NewReader(all))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), " ", 4)
		if len(parts) != 4 {
			return "", fmt.Errorf("%s: a line %q", name, lines.Text())
		}
		fmt.Fprintln(&text, parts[3])
	}
	return text.String(), lines.Err()
}

// linkName is the name of a link, as collectors take it apart.
func linkName(pod, container, id string) string {
	return fmt.Sprintf("%s-%s_default_%s-%s.log", pod, NodeName, container, id)
}

// incarnations are the IDs of a container, oldest first.
func (b *bed) incarnations(t *testing.T, pod, container string) []string {
	t.Helper()
	ids := map[uint32]string{}
	for _, c := range b.look(t).Of(pod).Containers {
		if c.Metadata.GetName() == container {
			ids[c.Metadata.GetAttempt()] = c.Id
		}
	}
	var out []string
	for n := uint32(0); len(out) < len(ids) && n < 100; n++ {
		if ids[n] != "" {
			out = append(out, ids[n])
		}
	}
	return out
}

// awaitText waits until that is what was read of a container's log.
func (b *bed) awaitText(t *testing.T, c *collector, name, want string) {
	t.Helper()
	b.await(t, name+" was read", func() error {
		text, err := c.text(name)
		if err == nil && text != want {
			err = fmt.Errorf("it is %d bytes of %d: %.60q", len(text), len(want), text)
		}
		return err
	})
}

func (b *bed) links(t *testing.T, pattern string) []string {
	t.Helper()
	found := check.Value(filepath.Glob(filepath.Join(b.Links(), pattern)))(t)
	return found
}

var linksManifest = Manifest("talks", 1, `
  initContainers:
  - {name: first, image: $WORK, args: [print, prepared]}
  - {name: side, image: $WORK, restartPolicy: Always, args: [print, beside, then, sleep]}
  containers:
  - name: app
    image: $WORK
    args: [append, /f/talks, started, then, lines, "50", then, sleep]
    volumeMounts: [{name: f, mountPath: /f}]`)

// TestLogLinks: a collector that looks for links has read every line of every container: of such as
// are restarted, also while the agent does not run, and of a log that is rotated. The links go with
// the containers, dead ones of former agents when the agent starts, and nothing else.
//
//tier:real
func TestLogLinks(t *testing.T) {
	onEach(t, func(t *testing.T, release lab.Release) {
		b := newBed(t, release, func(c *Config) {
			c.Settings = "containerLogMaxSize: 64Ki\ncontainerLogMaxFiles: 100\ncontainerLogMonitorInterval: 3s\n"
		})
		others := b.strangers(t)
		c := collect(t, b.Links(), b.Logs())
		b.start(t)
		check.Fatal(t, lab.Eventually(t.Context(), patience, "dead links of a former agent go", func() error {
			left := b.links(t, "old_*")
			return check.That(len(left) == 0, "left: %v", left)
		}))

		const rounds = 80 // for longer than two rounds of rotation take, on a busy machine too
		b.apply(t, "rotates.yaml", restarts("rotates", "Never", strings.Repeat(`lines, "300", then, sleep, 200ms, then, `, rounds)+"print, end"))
		b.apply(t, "talks.yaml", linksManifest)
		talks := b.awaitRunning(t, "talks")
		var fifty strings.Builder
		for n := range 50 {
			fmt.Fprintln(&fifty, "line", n+1)
		}
		for container, text := range map[string]string{"first": "prepared\n", "side": "beside\n", "app": fifty.String()} {
			b.awaitText(t, c, linkName("talks", container, b.incarnations(t, "talks", container)[0]), text)
		}

		// It restarts: each incarnation has a link of its own, and the one before keeps its.
		b.killContainer(t, "talks", "app")
		b.awaitLines(t, "talks", 2)
		ids := b.incarnations(t, "talks", "app")
		b.awaitText(t, c, linkName("talks", "app", ids[len(ids)-1]), fifty.String())
		if links := b.links(t, "talks*_app-*"); len(links) != len(ids) || len(ids) != 2 {
			t.Errorf("links %v of containers %v", links, ids)
		}

		// It ends while no agent runs, and somebody removes the links: the next agent makes those that
		// are missing, and the new one.
		b.kill(t)
		b.killContainer(t, "talks", "app")
		for _, link := range b.links(t, "talks*") {
			check.Fatal(t, os.Remove(link))
		}
		b.start(t)
		b.awaitLines(t, "talks", 3)
		b.await(t, "all links are there", func() error {
			for _, k := range b.look(t).Of("talks").Containers {
				check.Must(os.Stat(filepath.Join(b.Links(), linkName("talks", k.Metadata.GetName(), k.Id))))
			}
			return nil
		})
		ids = b.incarnations(t, "talks", "app")
		b.awaitText(t, c, linkName("talks", "app", ids[len(ids)-1]), fifty.String())

		b.remove(t, "talks.yaml")
		b.awaitGone(t, "talks", talks.UID)
		check.None(t, b.links(t, "talks*"), "left of a pod that is gone")

		b.awaitRotated(t, c, rounds)
		for name, target := range others {
			if _, err := os.Lstat(filepath.Join(b.Links(), name)); err != nil {
				t.Error(err)
			}
			if now, err := os.Readlink(filepath.Join(b.Links(), name)); now != target { // empty of a file
				t.Errorf("%s led to %q and leads to %q: %v", name, target, now, err)
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.late) > 0 || len(c.seen) < 6 {
			t.Errorf("%d logs, of which could be read before they had a link: %v", len(c.seen), c.late)
		}
	})
}

// awaitRotated waits until a log that was rotated meanwhile was read as a whole.
func (b *bed) awaitRotated(t *testing.T, c *collector, rounds int) {
	t.Helper()
	var want strings.Builder
	for range rounds {
		for n := range 300 {
			fmt.Fprintln(&want, "line", n+1)
		}
	}
	want.WriteString("end\n")
	b.awaitText(t, c, linkName("rotates", "main", b.incarnations(t, "rotates", "main")[0]), want.String())
	files, err := filepath.Glob(filepath.Join(b.Logs(), "default_rotates-*", "main", "0.log.*"))
	if err != nil || len(files) < 2 {
		t.Errorf("rotated files are %v: %v", files, err)
	}
}

// strangers makes what others have in the directory of links: dead links of a former agent, which are
// to go, and what is to stay, with where it leads.
func (b *bed) strangers(t *testing.T) map[string]string {
	t.Helper()
	other := filepath.Join(b.dir, "pods")
	check.Fatal(t, os.MkdirAll(filepath.Join(other, "default_second_u1", "app"), 0o755))
	check.Fatal(t, os.MkdirAll(b.Links(), 0o755))
	stay := map[string]string{
		"second_default_app-0123456789.log": filepath.Join(other, "default_second_u1", "app", "0.log"), // to be started next
		"notes.log":                         filepath.Join(other, "nothing"),
	}
	for n := range 3 {
		stay[fmt.Sprintf("old_default_app-%d.log", n)] = filepath.Join(other, "default_old_u1", "app", fmt.Sprint(n, ".log"))
	}
	for name, target := range stay {
		check.Fatal(t, os.Symlink(target, filepath.Join(b.Links(), name)))
		if strings.HasPrefix(name, "old_") {
			delete(stay, name)
		}
	}
	check.Fatal(t, os.WriteFile(filepath.Join(b.Links(), "file_default_app-0123456789.log"), []byte("2026-11-22T12:00:00Z stdout F a file\n"), 0o644))
	stay["file_default_app-0123456789.log"] = ""
	return stay
}

// killContainer kills the running container of that name from outside.
func (b *bed) killContainer(t *testing.T, pod, container string) {
	t.Helper()
	for _, c := range b.look(t).Of(pod).Running() {
		if c.Metadata.GetName() != container {
			continue
		}
		pid := check.Value(ContainerPID(t.Context(), b.lab, c.Id))(t)
		killPID(t, pid)
		return
	}
	t.Fatalf("container %s of pod %s does not run", container, pod)
}

// TestLogLinksThatCannotBeMade: pods run all the same, and the log of the agent says once what is wrong.
//
//tier:real
func TestLogLinksThatCannotBeMade(t *testing.T) {
	t.Parallel()
	b := newBed(t, lab.Containerd2)
	check.Fatal(t, os.WriteFile(b.Links(), nil, 0o644))
	b.start(t)
	b.apply(t, "a.yaml", restarts("a", "Always", "print, hello, then, sleep"))
	b.apply(t, "b.yaml", restarts("b", "Always", `exit, "1"`))
	b.awaitRunning(t, "a")
	b.awaitLines(t, "b", 2)
	warnings := slices.DeleteFunc(strings.Split(b.Log(), "\n"), func(l string) bool { return !strings.Contains(l, "symlinks to container logs") })
	if len(warnings) != 1 || !strings.Contains(warnings[0], b.Links()) || !strings.Contains(warnings[0], "--container-log-links-dir") {
		t.Errorf("warnings: %q", warnings)
	}
}
