package simcri

import (
	"context"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// pulling begins a pull and gives its answer to come.
func (w *world) pulling(ctx context.Context, image string) *answer[string] {
	a, done := give[string](w)
	w.PullImage(ctx, port.PullImage{Image: image}, done)
	return a
}

func sized(mb uint64, names ...string) func(*Config) {
	return func(c *Config) {
		c.Bandwidth = 10 << 20
		c.Registry = NewStrictRegistry()
		for _, n := range names {
			c.Registry.Put(n, RegistryImage{SizeBytes: mb << 20})
		}
	}
}

// TestPullsShareBandwidth: 100 MB alone take 10 s; a second pull halves the
// speed for as long as both run.
func TestPullsShareBandwidth(t *testing.T) {
	w := newWorld(t, sized(100, "a:1", "b:1"))
	begun := w.clock.Now()
	a := w.pulling(context.Background(), "a:1")
	w.clock.Advance(4 * time.Second)
	b := w.pulling(context.Background(), "b:1")
	w.clock.Advance(time.Minute)
	// a has 60 MB to go when b joins: 12 s at half speed. b then has 40 MB: 4 s.
	for _, c := range []struct {
		name string
		got  *answer[string]
		want time.Duration
	}{{"a", a, 16 * time.Second}, {"b", b, 20 * time.Second}} {
		if took := c.got.at.Sub(begun); c.got.err != nil || (took-c.want).Abs() > 5*time.Millisecond {
			t.Errorf("%s took %v (%v), want %v", c.name, took, c.got.err, c.want)
		}
	}
}

// lateClock never calls what is due: the test does.
type lateClock struct {
	now time.Time
	due []time.Duration
	f   []func()
}

func (c *lateClock) Now() time.Time { return c.now }
func (c *lateClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.due, c.f = append(c.due, d), append(c.f, f)
	return func() bool { return true }
}

// TestPullBesideOneThatIsComplete: the machine's clock is late with the end of a pull, and another begins meanwhile.
func TestPullBesideOneThatIsComplete(t *testing.T) {
	clock := &lateClock{now: time.Unix(0, 0)}
	c := Config{Clock: clock, Rand: streams(1)}
	sized(10, "a:1", "b:1")(&c)
	r := check.Value(New(c))(t)
	for _, image := range []string{"a:1", "b:1"} {
		r.PullImage(context.Background(), port.PullImage{Image: image}, func(string, error) {})
		clock.f[len(clock.f)-1]() // the call's latency is over
		check.AtMost(t, clock.due[len(clock.due)-1], time.Minute, "with %s the next pull is complete after", image)
		clock.now = clock.now.Add(time.Minute)
	}
}

func TestPullJoinsAndGivesUp(t *testing.T) {
	w := newWorld(t, sized(100, "a:1", "b:1"))
	begun := w.clock.Now()
	ctxA := w.ending()
	a, again := w.pulling(ctxA, "a:1"), w.pulling(context.Background(), "a:1")
	ctxB := w.ending()
	b := w.pulling(ctxB, "b:1")
	w.clock.Advance(2 * time.Second)
	check.Count(t, w.Truth().Pulling, 2, "%d images are pulled")
	ctxA.End(context.Canceled)
	ctxB.End(context.DeadlineExceeded)
	check.Equal(t, a.n, 0, "done was called inside of cancel")
	w.clock.Advance(time.Minute)
	wantKind(t, "a", a.err, port.Canceled)
	wantKind(t, "b", b.err, port.Deadline)
	// Until 2 s at half speed, then alone.
	if took := again.at.Sub(begun); again.err != nil || (took-11*time.Second).Abs() > 5*time.Millisecond {
		t.Errorf("the one that waited took %v (%v), want 11s", took, again.err)
	}
	if images := w.Truth().Images; len(images) != 1 {
		t.Errorf("images are %+v, want a:1 only", images)
	}
}

func TestRegistryRefusals(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Registry = NewRegistry()
		c.Registry.Withdraw("gone:1")
		c.Registry.Put("secret:1", RegistryImage{SizeBytes: 1, Credential: &port.ImageAuth{Username: "u", Password: "p"}})
	})
	_, err := w.pullSync(port.PullImage{Image: "gone:1"})
	wantKind(t, "gone", err, port.ImageNotFound)
	_, err = w.pullSync(port.PullImage{Image: "secret:1"})
	wantKind(t, "no credential", err, port.Other)
	check.Value(w.pullSync(port.PullImage{Image: "secret:1", Auth: &port.ImageAuth{Username: "u", Password: "p"}}))(t)
	_, err = w.pullSync(port.PullImage{Image: "Upper/Case"})
	wantKind(t, "name", err, port.InvalidImageName)
	w.cfg.Registry.SetDown(true)
	_, err = w.pullSync(port.PullImage{Image: "other:1"})
	wantKind(t, "down", err, port.Other)
}

func TestImageSizeByAnnotation(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Bandwidth = 10 << 20 })
	p := aPod("p", "image-size", "500Mi", "app.image-size", "200Mi")
	begun := w.clock.Now()
	check.Value(w.pullSync(port.PullImage{Image: testImage, Pod: p}))(t)
	if took := w.clock.Now().Sub(begun); (took - 20*time.Second).Abs() > 5*time.Millisecond {
		t.Errorf("200 MiB at 10 MiB/s took %v", took)
	}
	_, err := w.pullSync(port.PullImage{Image: testImage, Pod: aPod("q", "image-size", "big")})
	wantKind(t, "size", err, port.InvalidConfig)
}

func TestImageNames(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, want := range map[string]string{
		"busybox":                   "docker.io/library/busybox:latest",
		"busybox:1":                 "docker.io/library/busybox:1",
		"a/b":                       "docker.io/a/b:latest",
		"localhost/x":               "localhost/x:latest",
		"localhost:5000/x/y:V_1":    "localhost:5000/x/y:V_1",
		"registry.test/x@" + digest: "registry.test/x@" + digest,
		"":                          "", "a b": "", "Upper": "", "x:": "", "x@sha256:12": "", "a//b": "", "x:t:u": "",
	} {
		got, ok := normalName(name)
		if got != want || ok != (want != "") {
			t.Errorf("%q is %q, %v; want %q", name, got, ok, want)
		}
	}
}

func TestImagesByAnyName(t *testing.T) {
	w := newWorld(t)
	w.MakeImagePresent("app:1", RegistryImage{SizeBytes: 5})
	img := w.Truth().Images[0]
	for _, name := range []string{"app:1", "docker.io/library/app:1", img.ID, img.RepoDigests[0]} {
		a, done := give[*observed.Image](w)
		w.ImageStatus(context.Background(), name, func(i observed.Image, ok bool, err error) {
			if !ok {
				done(nil, err)
				return
			}
			done(&i, err)
		})
		if got := check.Value(await(w, a))(t); got == nil || got.ID != img.ID {
			t.Errorf("%s gives %+v", name, got)
		}
	}
}
