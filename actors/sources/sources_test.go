package sources_test

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

func TestStart(t *testing.T) {
	for name, c := range map[string]struct {
		change []func(r *rig)
		want   []string
	}{
		"a directory": {
			[]func(r *rig){has("web.yaml", pod("web", 1))},
			[]string{"LoadCheckpoint", "ReadManifests", "http:", "file: web1", "SaveCheckpoint"},
		},
		"an empty directory": {
			nil, []string{"LoadCheckpoint", "ReadManifests", "http:", "file:", "SaveCheckpoint"},
		},
		"a URL": {
			[]func(r *rig){fromURL(pod("web", 1))},
			[]string{"LoadCheckpoint", "file:", "FetchManifest", "http: web1", "SaveCheckpoint"},
		},
		"neither": {
			[]func(r *rig){func(r *rig) { r.deps.Path = "" }}, []string{"LoadCheckpoint", "file:", "http:"},
		},
		"a checkpoint that is no JSON": {
			[]func(r *rig){has("web.yaml", pod("web", 1)), func(r *rig) { r.Checkpoints.Put(checkpoint, []byte("{")) }},
			[]string{"LoadCheckpoint", "SetAsideCheckpoint", "ReadManifests", "http:", "file: web1", "SaveCheckpoint"},
		},
		"a disk that cannot be read": {
			[]func(r *rig){has("web.yaml", pod("web", 1)), func(r *rig) {
				r.faults["LoadCheckpoint"] = machine.Fault{Err: errors.New("input/output error")}
			}},
			[]string{"LoadCheckpoint", "SetAsideCheckpoint", "ReadManifests", "http:", "file: web1", "SaveCheckpoint"},
		},
	} {
		t.Run(name, func(t *testing.T) { newRig(t, c.change...).want("the start", soon, c.want...) })
	}
}

// TestFiles follows the files of a directory through their lives. A change is a hint to read all.
func TestFiles(t *testing.T) {
	r := newRig(t)
	r.want("nothing", soon, "LoadCheckpoint", "ReadManifests", "http:", "file:", "SaveCheckpoint")
	for _, step := range []struct{ what, name, text, want string }{
		{"a file appears", "web.yaml", pod("web", 1), "file: web1"},
		{"another one is half written", "db.yaml", halfOf(pod("db", 1)), "file: web1, problem in db.yaml"},
		{"the rest is written", "db.yaml", pod("db", 1), "file: db1 web1"},
		{"a file changes", "web.yaml", pod("web", 2), "file: db1 web2"},
		{
			"a file is broken, and its last good version kept", "web.yaml", halfOf(pod("web", 3)),
			"file: db1 web2, problem in web.yaml keeps default/web-n1",
		},
		{
			"a broken file has another problem", "web.yaml", "kind: Service",
			"file: db1 web2, problem in web.yaml keeps default/web-n1",
		},
		{"a file is mended", "web.yaml", pod("web", 3), "file: db1 web3"},
		{
			"a second file has the name of a pod: the one with the shorter name wins", "also-web.yaml", pod("web", 9),
			"file: db1 web3, problem in also-web.yaml",
		},
		{"it names another pod", "also-web.yaml", pod("other", 1), "file: other1 db1 web3"},
	} {
		r.write(step.name, step.text)
		r.want(step.what, soon, "ReadManifests", step.want, "SaveCheckpoint")
	}
	again := func(text string) {
		r.Manifests.Remove("web.yaml")
		r.Manifests.Write("web.yaml", []byte(text))
	}
	again(pod("web", 3))
	r.want("a file is removed and made again before anybody looks", soon,
		"ReadManifests", "ReadManifests", "remade: 1", "file: other1 db1 web3", "file: other1 db1 web3")
	r.Manifests.Remove("web.yaml")
	r.want("a file goes, and its pod with it", soon, "ReadManifests", "file: other1 db1", "SaveCheckpoint")
	r.Manifests.Write("web.yaml", []byte(pod("web", 3)))
	r.want("it comes back later", soon, "ReadManifests", "file: other1 db1 web3", "SaveCheckpoint")
	const kept = "file: other1 db1 web3, problem in web.yaml keeps default/web-n1"
	again(halfOf(pod("web", 3)))
	r.want("it is made again, and broken: the last good version is kept", soon,
		"ReadManifests", "ReadManifests", kept, "SaveCheckpoint", kept)
	again(pod("web", 4))
	r.want("it is made again with another pod", soon,
		"ReadManifests", "ReadManifests", "file: other1 db1 web4", "SaveCheckpoint", "file: other1 db1 web4")
	r.Manifests.Remove("web.yaml")
	r.want("it goes", soon, "ReadManifests", "file: other1 db1", "SaveCheckpoint")
	r.Manifests.Write("db.yaml", []byte(pod("db", 1)))
	r.want("a file is written as it was", soon, "ReadManifests", "file: other1 db1")
}

// TestHintIsLost: the directory is read once per period all the same.
func TestHintIsLost(t *testing.T) {
	r := newRig(t)
	r.Manifests.Missed = true
	r.Advance(soon)
	r.write("web.yaml", pod("web", 1))
	r.want("no hint", pathPeriod/2)
	r.want("the period", pathPeriod/2, "ReadManifests", "file: web1", "SaveCheckpoint")
	r.want("the next", pathPeriod, "ReadManifests", "file: web1")
}

// TestManyHints: those that come while the directory is read make for one more reading, which finds
// what the one under way may have missed.
func TestManyHints(t *testing.T) {
	r := newRig(t)
	r.Advance(soon)
	r.faults["ReadManifests"] = machine.Fault{Latency: 5 * time.Second}
	r.write("a.yaml", pod("a", 1))
	r.want("the first hint", time.Second, "ReadManifests")
	r.write("b.yaml", pod("b", 1))
	r.write("c.yaml", pod("c", 1))
	r.want("two more", 3*time.Second)
	delete(r.faults, "ReadManifests")
	r.want("the answer", 2*time.Second,
		"ReadManifests", "file: a1 b1 c1", "SaveCheckpoint", "file: a1 b1 c1")
}

func TestDirectoryNotReadable(t *testing.T) {
	denied := errors.New("permission denied")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"not readable: nobody knows what is wanted": {denied, "file:, not read yet, problem in /etc/manifests"},
		"not there: nothing is wanted":              {fs.ErrNotExist, "file:, problem in /etc/manifests"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.Manifests.ReadErr = c.err })
			r.want("the start", soon, "LoadCheckpoint", "ReadManifests", "http:", c.want)
			r.want("again", 2*pathPeriod, "ReadManifests", c.want, "ReadManifests", c.want)
			if n := r.Logged("invalid manifest", c.err.Error()); n != 1 {
				t.Errorf("logged %d times, want once: %s", n, &r.Log)
			}
			r.Manifests.ReadErr = nil
			r.write("web.yaml", pod("web", 1))
			r.want("it can be read", soon, "ReadManifests", "file: web1", "SaveCheckpoint")
		})
	}
	r := newRig(t, has("web.yaml", pod("web", 1)))
	r.Advance(soon)
	r.Manifests.ReadErr = denied
	r.want("what was wanted stays wanted", pathPeriod, "ReadManifests", "file: web1, problem in /etc/manifests")
	r.Manifests.ReadErr = nil
	r.want("it is back", pathPeriod, "ReadManifests", "file: web1")
	r.Manifests.ReadErr = denied
	r.Advance(pathPeriod)
	if n := r.Logged("invalid manifest", denied.Error()); n != 2 {
		t.Errorf("logged %d times, want once for each time it broke: %s", n, &r.Log)
	}
}

// TestDirectoryIsGone: nothing is wanted of a directory that stays away, and all of one that is back. One that
// is replaced is not gone.
func TestDirectoryIsGone(t *testing.T) {
	const problem = "problem in /etc/manifests"
	r := newRig(t, has("web.yaml", pod("web", 1)))
	r.Advance(soon)
	r.Manifests.ReadErr = fs.ErrNotExist
	r.hint()
	r.want("it is moved away", 4*time.Second, "ReadManifests", "file: web1, "+problem)
	r.Manifests.ReadErr = nil
	r.hint()
	r.want("and another one is in its place", 2*time.Second, "ReadManifests", "file: web1", "ReadManifests", "file: web1")
	r.Manifests.ReadErr = fs.ErrNotExist
	r.hint()
	r.want("it is moved away again", 4*time.Second, "ReadManifests", "file: web1, "+problem)
	r.Manifests.ReadErr = errors.New("permission denied")
	r.hint()
	r.want("it is there and can't be read", 2*time.Second,
		"ReadManifests", "file: web1, "+problem, "ReadManifests", "file: web1, "+problem)
	r.Manifests.ReadErr = fs.ErrNotExist
	r.hint()
	r.want("it is removed", 4*time.Second, "ReadManifests", "file: web1, "+problem)
	r.want("and stays away", 2*time.Second, "ReadManifests", "file:, "+problem, "SaveCheckpoint")
	r.Manifests.ReadErr = nil
	r.hint()
	r.want("it is back", soon, "ReadManifests", "file: web1", "SaveCheckpoint")
}

// TestUnsure: as long as something of the directory can't be read, and no valid version of it is known, there may be more
// that it wants.
func TestUnsure(t *testing.T) {
	r := newRig(t, has("web.yaml", pod("web", 1)))
	r.Advance(soon)
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"all is read", func() {}, false},
		{"a file is half written", func() { r.write("db.yaml", halfOf(pod("db", 1))) }, true},
		{"the rest is written", func() { r.write("db.yaml", pod("db", 1)) }, false},
		{"a file is broken that was valid", func() { r.write("db.yaml", halfOf(pod("db", 2))) }, false},
		{"the directory can't be read", func() { r.Manifests.ReadErr = errors.New("permission denied"); r.hint() }, true},
		{"it can", func() { r.Manifests.ReadErr = nil; r.hint() }, false},
		{"it is not there", func() { r.Manifests.ReadErr = fs.ErrNotExist; r.hint() }, true},
		{"for long", func() { r.Advance(6 * time.Second) }, true},
		{"and it is told again", func() { r.actor.Tell(sources.Resend{}) }, true},
		{"it is there, and empty", func() {
			r.Manifests.ReadErr = nil
			r.Manifests.Remove("web.yaml")
			r.Manifests.Remove("db.yaml")
		}, false},
	} {
		step.do()
		r.Advance(2 * soon)
		if r.unsure != step.want {
			t.Errorf("%s: unsure is %v", step.what, r.unsure)
		}
	}
}

// TestFileNotReadable: one file of the directory is like a broken one.
func TestFileNotReadable(t *testing.T) {
	r := newRig(t, has("web.yaml", pod("web", 1)), func(r *rig) { r.deps.Manifests = &locked{Manifests: r.Manifests} })
	r.Advance(soon)
	r.deps.Manifests.(*locked).name = "web.yaml"
	r.write("db.yaml", pod("db", 1))
	r.want("a FIFO", soon, "ReadManifests", "file: db1 web1, problem in web.yaml keeps default/web-n1", "SaveCheckpoint")
}

// TestReadIsNotAnswered: the deadline is a problem of the directory. Nothing else is read meanwhile,
// and the directory is read again at once after it. The late answer changes nothing.
func TestReadIsNotAnswered(t *testing.T) {
	r := newRig(t, has("web.yaml", pod("web", 1)))
	r.Advance(soon)
	r.faults["ReadManifests"] = machine.Fault{Latency: deadline + time.Second}
	r.want("the call", pathPeriod, "ReadManifests")
	r.want("no other one", deadline-2*soon)
	delete(r.faults, "ReadManifests")
	r.want("the deadline", 2*soon, "ReadManifests", "file: web1, problem in /etc/manifests", "file: web1")
	r.want("the late answer", pathPeriod/2)
	if r.Logged("no answer within 1m0s") != 1 {
		t.Errorf("the log does not say it once: %s", &r.Log)
	}
}

// TestPartsAreIgnored: what a kubelet drops of a manifest is dropped, and the log says so once.
func TestPartsAreIgnored(t *testing.T) {
	const ignored = "a part of a manifest is ignored"
	r := newRig(t, has("web.yaml", pod("web", 1)+"nope: 1\nnope: 2\n---\nkind: Service\n"))
	r.want("it runs", soon, "LoadCheckpoint", "ReadManifests", "http:", "file: web1", "SaveCheckpoint")
	r.want("it is read again", 2*pathPeriod, "ReadManifests", "file: web1", "ReadManifests", "file: web1")
	for _, why := range []string{`"field":"nope","problem":"unknown field`, "given twice", "2 YAML documents"} {
		if n := r.Logged(ignored, why); n != 1 {
			t.Errorf("%s: logged %d times: %s", why, n, &r.Log)
		}
	}
	uid := r.Checkpoints.Get(checkpoint)
	r.write("web.yaml", halfOf(pod("web", 2)))
	r.want("it breaks", soon, "ReadManifests", "file: web1, problem in web.yaml keeps default/web-n1", "SaveCheckpoint")
	r.write("web.yaml", pod("web", 1))
	r.want("it is mended, and the pod is the same", soon, "ReadManifests", "file: web1", "SaveCheckpoint")
	if bytes.Equal(uid, r.Checkpoints.Get(checkpoint)) {
		t.Error("what is not ignored any more is still in the checkpoint")
	}
	if n := r.Logged(ignored, "unknown field"); n != 1 {
		t.Errorf("logged %d times: %s", n, &r.Log)
	}
}

// TestURL: the answer is asked for once per period, and told if it changed.
func TestURL(t *testing.T) {
	const url = "https://me:xxxxx@example.com/pods"
	r := newRig(t, fromURL(pod("web", 1)))
	r.Advance(soon)
	r.want("nothing new", urlPeriod, "FetchManifest")
	r.Manifests.Body = pod("web", 2)
	r.want("another version", urlPeriod, "FetchManifest", "http: web2", "SaveCheckpoint")
	r.Manifests.Body = halfOf(pod("web", 3))
	r.want("a broken one", urlPeriod, "FetchManifest", "http: web2, problem in "+url+" keeps default/web-n1", "SaveCheckpoint")
	r.Manifests.Body = pod("web", 2)
	r.want("it is as it was", urlPeriod, "FetchManifest", "http: web2", "SaveCheckpoint")
	r.Manifests.FetchErr = errors.New("503 Service Unavailable")
	const unavailable = "http: web2, problem in " + url + " keeps default/web-n1"
	r.want("no answer", 2*urlPeriod, "FetchManifest", unavailable, "SaveCheckpoint", "FetchManifest", unavailable)
	r.Manifests.FetchErr = nil
	r.want("the same answer, which takes the problem away", urlPeriod, "FetchManifest", "http: web2", "SaveCheckpoint")
	r.want("nothing new again", urlPeriod, "FetchManifest")
	if r.Logged("503 Service Unavailable") != 1 || r.Logged("secret") != 0 {
		t.Errorf("the log does not say it once and without the password: %s", &r.Log)
	}
}

// TestURLNeverAnswered: what it wants is not known, and no call is made beside one under way.
func TestURLNeverAnswered(t *testing.T) {
	r := newRig(t, fromURL(pod("web", 1)), func(r *rig) { r.faults["FetchManifest"] = machine.Fault{Hang: true} })
	r.want("silence", deadline-soon, "LoadCheckpoint", "file:", "FetchManifest")
	delete(r.faults, "FetchManifest")
	r.want("the deadline", 2*soon,
		"http:, not read yet, problem in https://me:xxxxx@example.com/pods", "SaveCheckpoint")
	r.want("the next period", urlPeriod/2, "FetchManifest", "http: web1", "SaveCheckpoint")
}

// TestAgentRestart: a pod whose manifest is broken at that moment runs on.
func TestAgentRestart(t *testing.T) {
	before := newRig(t, has("web.yaml", pod("web", 1)))
	before.Advance(soon)
	remembers := func(r *rig) { r.Checkpoints.Put(checkpoint, before.Checkpoints.Get(checkpoint)) }
	r := newRig(t, remembers, has("web.yaml", halfOf(pod("web", 2))))
	r.want("a broken file", soon, "LoadCheckpoint", "ReadManifests", "http:",
		"file: web1, problem in web.yaml keeps default/web-n1", "SaveCheckpoint")
	r = newRig(t, remembers)
	r.want("a file that is gone", soon, "LoadCheckpoint", "ReadManifests", "http:", "file:", "SaveCheckpoint")
	r = newRig(t, remembers, func(r *rig) { r.Manifests.ReadErr = fs.ErrNotExist })
	r.want("a directory that is gone, or is mounted late", 4*time.Second, "LoadCheckpoint", "ReadManifests", "http:",
		"file: web1, not read yet, problem in /etc/manifests")
	r.want("it stays away", 2*time.Second, "ReadManifests", "file:, problem in /etc/manifests", "SaveCheckpoint")
	r = newRig(t, remembers, fromURL(pod("db", 1)))
	r.want("a directory that is not configured any more", soon,
		"LoadCheckpoint", "file:", "FetchManifest", "http: db1", "SaveCheckpoint")
}

// TestActorRestart: the second incarnation knows what the first saved, has a watch of its own, and takes
// no answer that the first asked for.
func TestActorRestart(t *testing.T) {
	r := newRig(t, has("web.yaml", pod("web", 1)))
	r.Advance(soon)
	r.faults["ReadManifests"] = machine.Fault{Latency: time.Second}
	r.write("web.yaml", halfOf(pod("web", 2)))
	r.want("the first one reads", soon, "ReadManifests")
	delete(r.faults, "ReadManifests")
	r.actor.Crash()
	r.actor.Tell(sources.Resend{})
	r.want("it crashes, and the second one's call waits for its", 100*time.Millisecond, "LoadCheckpoint", "http:")
	r.want("the answer to the first one counts for nothing", time.Second, "ReadManifests",
		"file: web1, problem in web.yaml keeps default/web-n1", "SaveCheckpoint")
	r.write("web.yaml", pod("web", 3))
	r.want("one watch", soon, "ReadManifests", "file: web3", "SaveCheckpoint")
}

// TestResend: pods restarted. Asked twice, it is told twice; before the checkpoint is loaded it comes anyway.
func TestResend(t *testing.T) {
	r := newRig(t, has("web.yaml", pod("web", 1)))
	r.actor.Tell(sources.Resend{})
	r.want("too early", soon, "LoadCheckpoint", "ReadManifests", "http:", "file: web1", "SaveCheckpoint")
	r.actor.Tell(sources.Resend{})
	r.actor.Tell(sources.Resend{})
	r.want("twice", soon, "file: web1", "http:", "file: web1", "http:")
}

// TestOverflow: hints may have been lost, so that all is told and the directory read.
func TestOverflow(t *testing.T) {
	r := newRig(t, func(r *rig) { r.limit = 1 })
	r.Advance(soon)
	r.Manifests.Missed = true
	r.write("web.yaml", pod("web", 1))
	r.actor.Tell(sources.Resend{})
	r.actor.Tell(sources.Resend{})
	r.want("one of two is lost", soon,
		"file:", "http:", "ReadManifests", "file:", "http:", "file: web1", "SaveCheckpoint")
}

// TestCheckpointCannotBeWritten: the pods run all the same, and the next reading writes it again.
func TestCheckpointCannotBeWritten(t *testing.T) {
	r := newRig(t, has("web.yaml", pod("web", 1)), func(r *rig) {
		r.faults["SaveCheckpoint"] = machine.Fault{Err: errors.New("no space left on device")}
	})
	r.want("the start", soon, "LoadCheckpoint", "ReadManifests", "http:", "file: web1", "SaveCheckpoint")
	delete(r.faults, "SaveCheckpoint")
	r.want("there is space", pathPeriod, "ReadManifests", "file: web1", "SaveCheckpoint")
	r.want("nothing to write", pathPeriod, "ReadManifests", "file: web1")
	if r.Logged("cannot write the static pods checkpoint", "no space left on device") != 1 {
		t.Errorf("the log does not say it once: %s", &r.Log)
	}
}

// TestWatchFails: the log says that the directory is only read periodically.
func TestWatchFails(t *testing.T) {
	r := newRig(t, func(r *rig) { r.deps.Manifests = unwatched{r.Manifests} })
	r.Advance(soon)
	r.write("web.yaml", pod("web", 1))
	r.want("no hint", pathPeriod/2)
	r.want("the period", pathPeriod/2, "ReadManifests", "file: web1", "SaveCheckpoint")
	if r.Logged("cannot watch the manifest directory", "too many open files", "/etc/manifests") != 1 {
		t.Errorf("the log does not say it once: %s", &r.Log)
	}
}
