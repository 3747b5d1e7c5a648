package imagepull_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestNext: what one waiter needs, by what is known of the image.
func TestNext(t *testing.T) {
	there := func(i *imagepull.Image) { i.See(&observed.Image{ID: "id"}, true, noon) }
	absent := func(i *imagepull.Image) { i.See(nil, false, noon) }
	for _, c := range []struct {
		what    string
		policy  v1.PullPolicy
		change  func(*imagepull.Image)
		waiter  func(*imagepull.Waiter)
		verdict imagepull.Verdict
		after   time.Duration
		want    string
	}{
		{what: "nothing is known", policy: v1.PullIfNotPresent, want: "look"},
		{what: "it is being looked for", policy: v1.PullIfNotPresent,
			change: func(i *imagepull.Image) { i.Look = imagepull.Looking }, want: "wait"},
		{what: "a look has failed", policy: v1.PullNever,
			change: func(i *imagepull.Image) { e := env(); i.NotSeen("no", &e) }, want: "wait 1s"},
		{what: "a look has failed, a second ago", policy: v1.PullNever, after: time.Second,
			change: func(i *imagepull.Image) { e := env(); i.NotSeen("no", &e) }, want: "look"},
		{what: "it need not be there", policy: v1.PullAlways, want: "pull"},
		{what: "it is there", policy: v1.PullIfNotPresent, change: there, verdict: imagepull.Allowed, want: "ready"},
		{what: "it was there", policy: v1.PullIfNotPresent, change: there, after: 5 * time.Second, want: "look"},
		{what: "nobody knows who may use it", policy: v1.PullIfNotPresent, change: there, want: "wait"},
		{what: "it is another pod's", policy: v1.PullIfNotPresent, change: there, verdict: imagepull.Refused, want: "pull"},
		{what: "it is another pod's, and is not pulled", policy: v1.PullNever, change: there, verdict: imagepull.Refused,
			want: "never 20s"},
		{what: "it is not there", policy: v1.PullIfNotPresent, change: absent, want: "pull"},
		{what: "it is not there, and is not pulled", policy: v1.PullNever, change: absent, want: "never 20s"},
		{what: "secrets are not known", policy: v1.PullAlways, waiter: func(w *imagepull.Waiter) { w.Secrets.Known = false },
			want: "wait"},
		{what: "plugins are not asked", policy: v1.PullAlways, waiter: func(w *imagepull.Waiter) { w.Lost() }, want: "look up"},
		{what: "plugins do not answer", policy: v1.PullAlways, waiter: func(w *imagepull.Waiter) { w.Begun(noon) }, want: "wait"},
	} {
		i, w, e := imagepull.New(img), waiter("a", c.policy), env()
		w.Begun(noon)
		w.Gave(imagepull.Found{})
		i.Waiting = append(i.Waiting, w)
		if c.change != nil {
			c.change(i)
		}
		if c.waiter != nil {
			c.waiter(w)
		}
		e.Now = noon.Add(c.after)
		check.Equal(t, show(i.Next(i.Waiting, []imagepull.Verdict{c.verdict}, &e), &e), c.want, "%s", c.what)
	}
}

func show(p imagepull.Plan, e *imagepull.Env) string {
	what := "wait"
	switch {
	case p.Look:
		what = "look"
	case len(p.LookUp) > 0:
		what = "look up"
	case len(p.Ready) > 0:
		what = "ready"
	case len(p.Pull) > 0:
		what = "pull"
	case len(p.Never) > 0:
		what = "never"
	case len(p.HeldUp) > 0:
		what = "held up"
	}
	if !p.Again.IsZero() {
		what += " " + p.Again.Sub(e.Now).String()
	}
	return what
}

// TestStages: each stage has the followers of the diagram, and no others.
func TestStages(t *testing.T) {
	follow := map[imagepull.Stage][]imagepull.Stage{
		imagepull.Idle:      {imagepull.Queued, imagepull.Inherited},
		imagepull.Queued:    {imagepull.Idle, imagepull.Noting, imagepull.Pulling},
		imagepull.Noting:    {imagepull.Idle, imagepull.Asking, imagepull.Pulling, imagepull.Leaving},
		imagepull.Asking:    {imagepull.Idle, imagepull.Pulling, imagepull.Leaving},
		imagepull.Pulling:   {imagepull.Idle, imagepull.Pulling, imagepull.Leaving},
		imagepull.Leaving:   {imagepull.Idle},
		imagepull.Inherited: {imagepull.Idle, imagepull.Disowned},
		imagepull.Disowned:  {imagepull.Idle},
	}
	for from := imagepull.Idle; from <= imagepull.Disowned; from++ {
		for to := imagepull.Idle; to <= imagepull.Disowned; to++ {
			i := imagepull.New(img)
			i.Stage = from
			panics := func() (is bool) {
				defer func() { is = recover() != nil }()
				i.Become(to)
				return false
			}()
			check.Equal(t, !panics, slices.Contains(follow[from], to), "%v becomes %v", from, to)
		}
	}
}

// TestCredentials: each is tried once, whoever has it; who has what works gets the image, and only those whose
// credentials have all failed are concerned by a failure.
func TestCredentials(t *testing.T) {
	i, e := imagepull.New(img), env()
	e.Plugins = false
	for n, name := range []string{"a", "b", "c"} {
		w := waiter(name, v1.PullAlways)
		w.Gave(imagepull.Found{Offers: []imagepull.Offer{{Credential: creds[n+1]}, {Credential: creds[1]}}})
		i.Waiting = append(i.Waiting, w)
	}
	begin := func() {
		i.Queue(e.Now)
		i.Begin(i.Next(i.Waiting, make([]imagepull.Verdict, 3), &e).Pull, false, &e)
	}
	begin()
	var tried []string
	for again := true; again; again = i.Failed(imagepull.Failure{Text: "no"}) {
		tried = append(tried, i.Try().Username)
	}
	check.Same(t, tried, []string{"right", "wrong", "other"}, "tried")
	check.Equal(t, len(i.Concerned(&e)), 3, "concerned")
	for _, w := range i.Concerned(&e) {
		check.Equal(t, i.Why()(w), "no", "why")
		i.Fail(w, "no", false, &e)
	}
	check.Equal(t, show(i.Next(i.Waiting, make([]imagepull.Verdict, 3), &e), &e), "held up", "then")
	e.Now = e.Now.Add(e.Backoff.Base)
	begin()
	i.Try()
	check.Equal(t, len(i.Worked(e.Now, e.Now)), 1, "offers that a record has")
	for _, w := range i.Waiting {
		check.Equal(t, w.State, imagepull.Brought, "%s", w.Pod.Name)
	}
	lost := i.See(nil, false, e.Now)
	check.Equal(t, len(lost), 3, "it is not there after all")
}

// TestNobodyKnows: a pull of an earlier incarnation brings the image to nobody, also if it was given up.
func TestNobodyKnows(t *testing.T) {
	for _, givenUp := range []bool{false, true} {
		i := imagepull.New(img)
		i.Inherit(noon)
		if givenUp {
			i.GiveUp()
		}
		w := waiter("a", v1.PullAlways)
		i.Waiting = append(i.Waiting, w)
		check.Equal(t, len(i.Worked(noon, noon)), 0, "offers")
		check.Equal(t, w.State, imagepull.Asked, "the waiter")
	}
}
