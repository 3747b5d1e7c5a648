package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// badFile is one way for a manifest to be wrong.
type badFile struct {
	name string
	put  func(t *testing.T, file string)
	want []string // all in one problem, beside the name of the file
}

// TestBadManifests shows that no file in the directory of manifests, however wrong, costs a pod
// anything, and that each is named with what is wrong, in the log and in `troupe pods`.
//
//tier:real
func TestBadManifests(t *testing.T) {
	t.Parallel()
	b := started(t, lab.Containerd2)
	b.apply(t, "steady.yaml", restarts("steady", "Always", "sleep"))
	// One whose manifest turns bad in every way below.
	b.apply(t, "turns.yaml", restarts("turns-bad", "Always", "sleep"))
	steady, turning := b.awaitRunning(t, "steady"), b.awaitRunning(t, "turns-bad")
	good := strings.NewReplacer("$FILES", b.dir, "$WORK", lab.WorkImage).Replace(restarts("turns-bad", "Always", "sleep"))

	cases := []badFile{
		{"malformed", text("apiVersion: v1\nkind: Pod\nmetadata: {name: [\n"), []string{"not valid YAML", "line 3"}},
		{"not-yaml", text("\x00\x01\x02 no text"), []string{"not valid YAML", "control characters"}},
		{"empty", text(""), []string{"the document is empty"}},
		{"half-written", text("apiVersion: v1\nkind: Pod\nmetadata:\n  name: half\nspec:\n  conta"), []string{"spec", "conta", "must be a map"}},
		{"invalid-name", text(plain("Not_A_Name")), []string{"metadata.name", "Not_A_Name"}},
		{"no-name", text(plain("")), []string{"metadata.name"}},
		{"wrong-type", text(strings.Replace(plain("type"), `"args": ["sleep"]`, `"args": 5`, 1)), []string{"spec.containers[0].args"}},
		{"no-containers", text(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "none"}, "spec": {"containers": []}}`), []string{"spec.containers"}},
		{"unsupported-kind", text(`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "deployment"}}`), []string{"Deployment"}},
		{"configmap-volume", text(strings.Replace(plain("volume"), `"spec": {`, `"spec": {"volumes": [{"name": "c", "configMap": {"name": "c"}}], `, 1)), []string{"spec.volumes[0]"}},
		{"huge", func(t *testing.T, file string) {
			const size = 100 << 20
			write(t, file, append([]byte(plain("huge")), bytes.Repeat([]byte(" "), size)...))
		}, []string{"is longer than"}},
		{"fifo", func(t *testing.T, file string) { check.Fatal(t, syscall.Mkfifo(file, 0o644)) }, []string{"is a FIFO"}},
		{"directory", func(t *testing.T, file string) { check.Fatal(t, os.Mkdir(file, 0o755)) }, []string{"is a directory"}},
		{"broken-symlink", func(t *testing.T, file string) {
			check.Fatal(t, os.Symlink("/no/such/file", file))
		}, []string{"is a link to /no/such/file"}},
		{"symlink-loop", func(t *testing.T, file string) {
			check.Fatal(t, os.Symlink(file, file))
		}, []string{"too many levels of symbolic links"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// A file of its own, and the one of a pod that runs.
			file := filepath.Join(b.Manifests(), "bad-"+c.name+".yaml")
			c.put(t, file)
			b.awaitProblem(t, file, c.want...)
			check.Fatal(t, os.RemoveAll(file))
			b.turnBad(t, c)
			b.awaitProblem(t, filepath.Join(b.Manifests(), "turns.yaml"), c.want...)
			b.unchanged(t, steady, turning)
			mended := filepath.Join(b.dir, "good")
			write(t, mended, []byte(good))
			b.exchange(t, mended)
			b.await(t, "no problem is left", func() error {
				view, err := b.Pods(t.Context())
				if err == nil && len(view.Problems) > 0 {
					err = fmt.Errorf("there is %+v", view.Problems)
				}
				return err
			})
			b.unchanged(t, steady, turning)
		})
	}

	t.Run("half-written-then-completed", func(t *testing.T) {
		whole := restarts("completed", "Always", "sleep")
		whole = strings.NewReplacer("$FILES", b.dir, "$WORK", lab.WorkImage).Replace(whole)
		file := filepath.Join(b.Manifests(), "completed.yaml")
		half := strings.Index(whole, "image:")
		write(t, file, []byte(whole[:half]))
		b.awaitProblem(t, file)
		write(t, file, []byte(whole))
		b.awaitRunning(t, "completed")
		b.awaitLines(t, "completed", 1)
	})
	t.Run("a-part-is-ignored", func(t *testing.T) {
		b.apply(t, "ignored.yaml", strings.Replace(plain("ignored"), `"spec": {`, `"spec": {"nosuchfield": 1, "hostPID": true, "hostPID": false, `, 1))
		b.awaitRunning(t, "ignored")
		for _, field := range []string{"spec.nosuchfield", "hostPID"} {
			check.Has(t, b.Log(), field, "the log does not name %s", field)
		}
		b.remove(t, "ignored.yaml")
	})
	t.Run("duplicate", func(t *testing.T) {
		// The one that is there keeps its place; the other is named.
		b.apply(t, "zz-steady.yaml", restarts("steady", "Always", "print, other, then, sleep"))
		b.awaitProblem(t, filepath.Join(b.Manifests(), "zz-steady.yaml"), "steady")
		b.unchanged(t, steady, turning)
		b.remove(t, "zz-steady.yaml")
	})
	t.Run("comes-and-goes", func(t *testing.T) {
		for range 50 {
			b.apply(t, "flicker.yaml", plain("flicker"))
			b.remove(t, "flicker.yaml")
		}
		b.await(t, "nothing is left of a pod that came and went", func() error {
			view := check.Must(b.Pods(t.Context()))
			if p, there := view.Pod("flicker"); there {
				return fmt.Errorf("it is listed: %+v", p)
			}
			return b.look(t).Of("flicker").Empty()
		})
		b.unchanged(t, steady, turning)
	})
	b.noneDoubled(t)
}

func text(text string) func(*testing.T, string) {
	return func(t *testing.T, file string) { write(t, file, []byte(text)) }
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	check.Fatal(t, os.WriteFile(file, text, 0o644))
}

// turnBad puts the bad thing in place of the manifest of a pod that runs.
func (b *bed) turnBad(t *testing.T, c badFile) {
	t.Helper()
	bad := filepath.Join(b.dir, "bad")
	c.put(t, bad)
	if c.name == "symlink-loop" { // a link to itself is one only in its place
		check.Fatal(t, errors.Join(os.Remove(bad), os.Symlink("turns.yaml", bad)))
	}
	b.exchange(t, bad)
}

// exchange puts a file in place of turns.yaml at once, whatever both are: a manifest that is missing
// even for a moment is a wish to remove the pod.
func (b *bed) exchange(t *testing.T, file string) {
	t.Helper()
	err := unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, filepath.Join(b.Manifests(), "turns.yaml"), unix.RENAME_EXCHANGE)
	if err == nil {
		err = os.RemoveAll(file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// awaitProblem waits until `troupe pods` and the log name the file, and what else is wanted.
func (b *bed) awaitProblem(t *testing.T, file string, want ...string) {
	t.Helper()
	b.await(t, "a problem of "+filepath.Base(file), func() error {
		view := check.Must(b.Pods(t.Context()))
		for _, p := range view.Problems {
			text := p.Field + " " + p.Value + " " + p.Message
			named := strings.Contains(p.Source, file) && p.Message != ""
			for _, w := range want {
				named = named && strings.Contains(text, w)
			}
			if named {
				return nil
			}
		}
		return fmt.Errorf("problems are %+v; wanted is one with %v", view.Problems, want)
	})
	b.await(t, "the log names "+filepath.Base(file), func() error {
		return check.That(strings.Contains(b.Log(), file), "it does not")
	})
}

// unchanged fails the test if a pod is not as it was.
func (b *bed) unchanged(t *testing.T, pods ...Pod) {
	t.Helper()
	check.Fatal(t, b.Running())
	view := check.Value(b.Pods(t.Context()))(t)
	for _, was := range pods {
		is, there := view.Pod(was.Name)
		if !there || is.UID != was.UID || is.Phase != "Running" || is.Container("main").ID != was.Container("main").ID || is.Restarts != 0 {
			t.Errorf("pod %s was %+v and is %+v (listed: %v)", was.Name, was, is, there)
		}
	}
}
