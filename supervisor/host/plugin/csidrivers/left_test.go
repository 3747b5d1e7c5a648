package csidrivers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestGivenUp: a call that nobody waits for any more may work yet, so what it is of stays noted.
func TestGivenUp(t *testing.T) {
	for want, end := range map[port.ErrorKind]func(context.Context) (context.Context, context.CancelFunc){
		port.Canceled: context.WithCancel,
		port.Deadline: func(c context.Context) (context.Context, context.CancelFunc) {
			e := expiring{c, make(chan struct{})}
			return e, sync.OnceFunc(func() { close(e.done) })
		},
	} {
		for _, code := range []codes.Code{codes.OK, codes.Internal} {
			t.Run(fmt.Sprint(want, " ", code), func(t *testing.T) {
				r := newRig(t, func(d *driver) { d.entered, d.free = make(chan struct{}, 1), make(chan struct{}) })
				d := r.next()
				r.driver.fail["stage"], r.driver.fail["publish"] = status.Error(code, "late"), status.Error(code, "late")
				var group sync.WaitGroup
				try := func(call func(context.Context, func(error))) {
					t.Helper()
					ctx, cancel := end(t.Context())
					done := make(chan error, 1)
					group.Go(func() { call(ctx, func(err error) { done <- err }) })
					<-r.driver.entered
					cancel()
					err := <-done
					hosttest.WantError(t, err, want)
					check.Equal(t, port.CSIOutcome(err), decide.Unsure, "%v", err)
					r.driver.free <- struct{}{} // the driver answers late
				}
				s, p := stage, publish
				s.Block, p.Block = true, true
				try(func(c context.Context, done func(error)) { r.StageVolume(c, d, stage, done) })
				try(func(c context.Context, done func(error)) {
					r.PublishVolume(c, d, publish, nil, func(_ string, err error) { done(err) })
				})
				try(func(c context.Context, done func(error)) { r.StageVolume(c, d, s, done) })
				try(func(c context.Context, done func(error)) {
					r.PublishVolume(c, d, p, nil, func(_ string, err error) { done(err) })
				})
				group.Wait()
				worked(t)
				if all, bad := r.found(); len(all) != 4 || len(bad) > 0 {
					t.Errorf("found %v, %v", all, bad)
				}
			})
		}
	}
}

// expiring is a context whose deadline passes when the test says so.
type expiring struct {
	context.Context
	done chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.done }

func (e expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// worked waits until nothing goes on that was begun, also without anybody who waits for it.
func worked(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		all := make([]byte, 1<<20)
		if !strings.Contains(string(all[:runtime.Stack(all, true)]), "hostcall.Get") {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a call goes on")
		}
	}
}

// each has a volume of each mode staged and published. It gives what was said, and what there is to undo.
func (r *rig) each(d port.CSIDriver, check func(text string, err error)) {
	s, p := stage, publish
	s.Block, p.Block = true, true
	check("stage", r.stage(d, stage))
	check("stage a device", r.stage(d, s))
	_, err := r.publish(d, publish)
	check("publish", err)
	_, err = r.publish(d, p)
	check("publish a device", err)
}

// TestLeft: what a driver has left after it refused counts as there, until it is undone. The error says both.
func TestLeft(t *testing.T) {
	r := newRig(t, nil)
	d := r.next()
	r.driver.leaves = true
	r.driver.fail["stage"], r.driver.fail["publish"] = status.Error(codes.Internal, "no"), status.Error(codes.Internal, "no")
	r.each(d, func(text string, err error) {
		if text == "stage a device" { // the kernel is asked, and has nothing mounted there
			hosttest.WantError(t, err, port.Other, "Internal desc = no")
			return
		}
		hosttest.WantError(t, err, port.Unavailable, "Internal desc = no", "can't be removed", "left its")
	})
	all, bad := r.found()
	if len(all) != 2 || len(bad) > 0 {
		t.Errorf("found %v, %v", all, bad)
	}
	r.driver.leaves = false
	err := errors.Join(r.undo(r.UnpublishVolume, d, decide.Found{Key: volume, Target: target}),
		r.undo(r.UnpublishVolume, d, decide.Found{Key: volume, Target: target, Block: true}), r.undo(r.UnstageVolume, d, decide.Found{Key: volume}))
	if err != nil {
		t.Error(err)
	}
	for _, dir := range []string{published, "pods/u1/volumeDevices/kubernetes.io~csi", filepath.Dir(staged) + "/*"} {
		if all, _ := filepath.Glob(filepath.Join(r.root, dir)); len(all) > 0 {
			t.Errorf("there are %q", all)
		}
	}
}

// TestNotNoted: without notes no driver is called, and nothing stays. If something does, it counts as there.
func TestNotNoted(t *testing.T) {
	r := newRig(t, nil)
	d := r.next()
	check.Fatal(t, r.stage(d, stage)) // to know its directory
	dir := filepath.Dir(r.driver.last.(*csi.NodeStageVolumeRequest).GetStagingTargetPath())
	check.Fatal(t, r.undo(r.UnstageVolume, d, decide.Found{Key: volume}))
	r.driver.said()
	places := map[string]string{
		"stage": dir, "publish": filepath.Join(r.root, published),
		"stage a device": filepath.Join(r.root, "plugins/kubernetes.io/csi/volumeDevices/pv/data"),
	}
	for _, c := range []struct {
		in   string // is where notes have to go
		want port.ErrorKind
	}{{"", port.Other}, {"full", port.Unavailable}} {
		for _, p := range places {
			check.Fatal(t, os.MkdirAll(filepath.Join(p, "vol_data.json", c.in), 0o750))
		}
		r.each(d, func(text string, err error) {
			if text == "publish a device" {
				return // it is noted as a link
			}
			check.Equal(t, port.KindOf(err), c.want, "%s: %v", text, err)
			if c.want == port.Other {
				hosttest.WantGone(t, places[text])
			}
		})
	}
	if got := r.driver.said(); got != "publish publish" { // of the device
		t.Errorf("the driver was called: %s", got)
	}
}

// TestLeftFiles: what a driver leaves in the directory of a device is removed. Other devices of the pod stay.
func TestLeftFiles(t *testing.T) {
	r := newRig(t, nil)
	d := r.next()
	s, p := stage, publish
	s.Block, p.Block = true, true
	_, err := r.publish(d, p)
	if err = errors.Join(err, r.stage(d, s)); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(r.root, "plugins/kubernetes.io/csi/volumeDevices/staging/pv")
	check.Fatal(t, os.MkdirAll(filepath.Join(at, "sub"), 0o750))
	hosttest.Write(t, filepath.Join(at, "sub", "device.json"), "{}")
	r.driver.fail["publish"] = status.Error(codes.Internal, "no")
	p.Name = "pv2"
	_, err = r.publish(d, p)
	hosttest.WantError(t, err, port.Other, "Internal desc = no")
	links, err := os.ReadDir(filepath.Join(r.root, "pods/u1/volumeDevices/kubernetes.io~csi"))
	if err != nil || len(links) != 1 || links[0].Name() != "pv" {
		t.Error(links, err)
	}
	err = errors.Join(r.undo(r.UnpublishVolume, d, decide.Found{Key: volume, Target: target, Block: true}),
		r.undo(r.UnstageVolume, d, decide.Found{Key: volume, Target: decide.Target{Name: "pv"}, Block: true}))
	if err != nil {
		t.Error(err)
	}
	hosttest.WantGone(t, at)
	if all, bad := r.found(); len(all)+len(bad) > 0 {
		t.Errorf("found %v, %v", all, bad)
	}
}

// TestBadDirectories: a directory that can't be read is named, and all others are read.
func TestBadDirectories(t *testing.T) {
	r := newRig(t, nil)
	d := r.next()
	s := stage
	s.Block = true
	check.Fatal(t, errors.Join(r.stage(d, stage), r.stage(d, s)))
	check.Fatal(t,
		errors.Join(os.MkdirAll(filepath.Join(r.root, "pods/a"), 0o750), os.Symlink("/", filepath.Join(r.root, "pods/a/volumes"))))
	files := []string{"pods/b/volumes/kubernetes.io~csi", "pods/c/volumeDevices/kubernetes.io~csi"}
	for _, f := range files {
		check.Fatal(t, os.MkdirAll(filepath.Dir(filepath.Join(r.root, f)), 0o750))
		hosttest.Write(t, filepath.Join(r.root, f), "")
	}
	check.Value(r.publish(d, publish))(t)
	want := []decide.Found{
		{Key: volume}, {Key: volume, Target: target}, {Key: volume, Target: decide.Target{Name: "pv"}, Block: true},
	}
	wantBad := func(paths ...string) {
		t.Helper()
		all, bad := r.found()
		check.Same(t, all, want, "found")
		check.Fatal(t, check.Is(len(bad), len(paths), "unreadable: %q", bad))
		slices.Sort(bad)
		for i, p := range paths {
			if !strings.HasPrefix(bad[i], filepath.Join(r.root, p)+": ") {
				t.Errorf("%q does not begin with %s", bad[i], p)
			}
		}
	}
	wantBad("pods/a/volumes/kubernetes.io~csi", files[0], files[1])
	devices := filepath.Join(r.root, "plugins/kubernetes.io/csi/volumeDevices")
	check.Fatal(t, os.RemoveAll(devices))
	hosttest.Write(t, devices, "")
	want = want[:2]
	wantBad("plugins/kubernetes.io/csi/volumeDevices", "pods/a/volumes/kubernetes.io~csi", files[0])
}

// TestPatience: a driver has a limited time for a call, and what is done with its volume here has not.
func TestPatience(t *testing.T) {
	r := newRig(t, func(d *driver) { d.patience = 2 * time.Second })
	d := r.next()
	p := publish
	p.Group, p.OwnGroup = new(int64(7)), true
	r.giving = func(ctx context.Context) error {
		wait, cancel := context.WithTimeout(ctx, r.driver.patience+100*time.Millisecond)
		defer cancel()
		<-wait.Done()
		return ctx.Err()
	}
	if _, err := r.publish(d, p); err != nil {
		t.Error(err)
	}
	r.driver.entered, r.driver.free = make(chan struct{}, 1), make(chan struct{})
	hosttest.WantError(t, r.stage(d, stage), port.Deadline, "NodeStageVolume")
	close(r.driver.free)
	if all, _ := r.found(); len(all) != 2 {
		t.Errorf("found %v", all)
	}
}

// TestRecovered: what is staged beside notes that can't be read is known by those of its pod.
func TestRecovered(t *testing.T) {
	r := newRig(t, nil)
	d := r.next()
	check.Fatal(t, r.stage(d, stage))
	notes := filepath.Join(filepath.Dir(r.driver.last.(*csi.NodeStageVolumeRequest).GetStagingTargetPath()), "vol_data.json")
	check.Fatal(t, os.Truncate(notes, 0))
	if all, bad := r.found(); len(all) != 0 || len(bad) != 1 || !strings.HasPrefix(bad[0], notes) {
		t.Errorf("found %v, %q", all, bad)
	}
	if k, is := r.lost[0].Among([]v1.UniqueVolumeName{"kubernetes.io/csi/" + volume.UniqueName(), volume.UniqueName()}); !is || k != volume {
		t.Errorf("%+v is %v, %v", r.lost, k, is)
	}
	check.Value(r.publish(d, publish))(t)
	want := []decide.Found{{Key: volume, Target: target}, {Key: volume}}
	if all, bad := r.found(); !slices.Equal(all, want) || len(bad) != 0 {
		t.Errorf("found %v, %q", all, bad)
	}
	check.Error(t, errors.Join(r.undo(r.UnpublishVolume, d, want[0]), r.undo(r.UnstageVolume, d, want[1])))
	hosttest.WantGone(t, filepath.Dir(notes))
}

// TestDark: what is published in a directory of a pod that can't be read is known by the mount table. If that does not
// say what a mount is of, no staged volume may be unstaged.
func TestDark(t *testing.T) {
	hosttest.NeedRoot(t)
	for name, c := range map[string]struct {
		// spoil makes the directory of the pod unreadable.
		spoil func(t *testing.T, dir string)
		// mount is what is mounted there: what is staged, something else, or nothing.
		mount string
		known bool
		held  string
	}{
		"bound":            {spoilNotes, "staged", true, ""},
		"bound, no list":   {spoilList, "staged", true, ""},
		"another":          {spoilNotes, "other", false, "is mounted, and of which volume can't be read"},
		"another, no list": {spoilList, "other", false, "is mounted, and of which volume can't be read"},
		"nothing, no list": {spoilList, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			d := r.next()
			check.Fatal(t, r.stage(d, stage))
			at := r.driver.last.(*csi.NodeStageVolumeRequest).GetStagingTargetPath()
			check.Value(r.publish(d, publish))(t)
			r.driver.mounted = map[string]bool{}
			hosttest.Mount(t, "one", at)
			other := t.TempDir()
			hosttest.Mount(t, "two", other)
			dir := filepath.Join(r.root, published)
			if from := map[string]string{"staged": at, "other": other}[c.mount]; from != "" {
				hosttest.Bind(t, from, filepath.Join(dir, "mount"))
			}
			c.spoil(t, dir)
			want := []decide.Found{{Key: volume, Held: ""}}
			if c.known {
				want = append(want, decide.Found{Key: volume, Target: target})
			}
			all, bad := r.found()
			check.Equal(t, len(bad), 1, "unreadable: %q", bad)
			if len(all) > 0 {
				if !strings.Contains(all[0].Held, c.held) || (all[0].Held == "") != (c.held == "") {
					t.Errorf("held: %q", all[0].Held)
				}
				all[0].Held = ""
			}
			check.Same(t, all, want, "found")
		})
	}
}

// spoilNotes has the notes of a publication say nothing.
func spoilNotes(t *testing.T, dir string) {
	t.Helper()
	check.Fatal(t, os.Truncate(filepath.Join(dir, "vol_data.json"), 0))
}

// spoilList has the directory of all publications of a pod not be read: it is that of a process that has ended.
func spoilList(t *testing.T, dir string) {
	t.Helper()
	c := exec.Command("sleep", "1000")
	check.Fatal(t, c.Start())
	hosttest.Bind(t, fmt.Sprintf("/proc/%d/fd", c.Process.Pid), filepath.Dir(dir))
	check.Fatal(t, c.Process.Kill())
	c.Wait() //nolint:errcheck // it was killed
}
