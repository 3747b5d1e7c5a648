package mirrors_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/mirrors"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

const (
	create = "create web of 1, owned by node"
	stands = "status: web is mirrored by mirror1"
)

// TestCreate: a mirror needs to be wanted, not to be there, and the node that owns it.
func TestCreate(t *testing.T) {
	r := newRig(t, statics("web=1"))
	r.WantAfter("the apiserver has not said which there are", soon)
	r.tells(found())
	r.WantAfter("the node is not known", soon)
	r.tells(node)
	r.WantAfter("all is known", soon, create)
	r.tells(found("web=1"))
	r.WantAfter("it is there", soon, stands)
	r.tells(found("web=1"), statics("web=1"), node)
	r.Advance(time.Hour)
	r.WantAfter("nothing is to be done", soon, stands) // a newer version of the mirror
}

// TestReplace: an outdated mirror is deleted, and created again when it is gone.
func TestReplace(t *testing.T) {
	r := newRig(t, node, statics("web=1"), found("web=1"))
	r.WantAfter("as it should be", soon, stands)
	r.tells(statics("web=2"))
	r.WantAfter("another manifest", soon, "delete web, if it is mirror1", "status: web has lost mirror1")
	r.tells(found())
	r.WantAfter("it is gone", soon, "create web of 2, owned by node")
	r.tells(found("web=2"))
	r.WantAfter("the new one is there", soon, "status: web is mirrored by mirror2")
}

// TestRunsAgain: the mirror of a pod that has ended stays, until the pod runs again.
func TestRunsAgain(t *testing.T) {
	r := newRig(t, node, statics("web=1"), found("web=1"))
	r.WantAfter("it has ended", soon, stands)
	r.tells(mirrors.Outlived{Mirror: "mirror1"})
	r.WantAfter("it runs again", soon, "delete web, if it is mirror1", "status: web has lost mirror1")
	r.tells(found())
	r.WantAfter("it is gone", soon, create)
	r.tells(found("web=1"))
	r.WantAfter("the new one is there", time.Hour, stands)
}

// TestClientDeletes: a mirror that a client deletes, gracefully or at once, is created again.
func TestClientDeletes(t *testing.T) {
	r := newRig(t, node, statics("web=1"), found("web=1"))
	r.WantAfter("as it should be", soon, stands)
	deleted := found("web=1")
	deleted.Mirrors[0].DeletionTimestamp = &metav1.Time{Time: actortest.Begin}
	r.tells(deleted)
	r.WantAfter("gracefully", soon, "delete web, if it is mirror1", "status: web has lost mirror1")
	r.tells(found())
	r.WantAfter("it is gone", soon, create)
	r.tells(found("web=1"))
	r.WantAfter("it is there", soon, stands)
	r.tells(found())
	r.WantAfter("at once", soon, create, "status: web has lost mirror1")
}

// TestOrphan: a mirror without a static pod is deleted, once all static pods are known.
func TestOrphan(t *testing.T) {
	r := newRig(t, node, mirrors.Statics{}, found("old=1"))
	r.WantAfter("others may come", time.Hour)
	r.tells(statics())
	r.WantAfter("none comes", soon, "delete old, if it is mirror1")
	r.tells(found())
	r.WantAfter("it is gone", time.Hour)
}

// TestFailure: a call is made again after a wait that doubles. The log has the first failure alone.
func TestFailure(t *testing.T) {
	r := newRig(t)
	r.err = errors.New("quota exceeded")
	r.tells(node, statics("web=1"), found())
	r.WantAfter("the first try", soon, create)
	for _, wait := range []time.Duration{base, 2 * base, 4 * base} {
		begun := r.Now()
		if !r.RunUntil(begun.Add(2*wait), func() bool { return len(r.Lines()) > 0 }) {
			t.Fatalf("no try within %v", 2*wait)
		}
		if got := r.Now().Sub(begun); got < wait/2-soon || got > wait {
			t.Errorf("the next try comes after %v, want between half of %v and all of it", got, wait)
		}
		r.WantAfter("the next try", soon, create)
	}
	warned := r.Logged(`"level":"warn"`)
	if warned != 1 || r.Logged("quota exceeded") == 0 {
		t.Errorf("warned %d times, want once: %s", warned, &r.Log)
	}
	r.tells(statics())
	r.WantAfter("nobody wants it any more", time.Hour)
}

// TestEcho: what was done shows in what apipods tells. If it does not, it is done again.
func TestEcho(t *testing.T) {
	r := newRig(t, node, statics("web=1"), found())
	r.WantAfter("it is created", echo-soon, create)
	r.tells(statics("web=1"))
	r.WantAfter("asked meanwhile", soon)
	r.WantAfter("no echo", 2*soon, create)
	r.tells(found("web=1"))
	r.WantAfter("the echo", time.Hour, stands)
}

// TestGoneAlready: that what is to be deleted is not there is no failure.
func TestGoneAlready(t *testing.T) {
	r := newRig(t)
	r.err = &port.Error{Kind: port.NotFound, Verb: "Delete"}
	r.tells(statics(), found("old=1"))
	r.WantAfter("not found", echo-soon, "delete old, if it is mirror1")
	check.Equal(t, r.Log.Len(), 0, "the log says %s", &r.Log)
}

// TestNoAnswer: nothing else is done about that name until the deadline, and others do not wait for it.
// The late answer is of no use.
func TestNoAnswer(t *testing.T) {
	r := newRig(t)
	r.answers.Silent = true
	r.tells(node, statics("web=1"), found())
	r.WantAfter("the call", deadline/2, create)
	r.answers.Silent = false
	r.tells(statics("web=1", "db=1"), found())
	r.WantAfter("another pod", soon, "create db of 1, owned by node")
	r.tells(found("db=1"))
	r.WantAfter("the other one stands", soon, "status: db is mirrored by mirror1")
	r.WantAfter("after the deadline", deadline/2+base, create)
	r.answers.Release(0)
	r.WantAfter("the late answer", soon)
	if r.Logged("no answer within 30s") == 0 {
		t.Errorf("the log says %s", &r.Log)
	}
}

// TestResend: status restarted, and is told of all that stand.
func TestResend(t *testing.T) {
	r := newRig(t, node, statics("web=1"), found("web=1"))
	r.WantAfter("as it should be", soon, stands)
	r.tells(mirrors.Resend{}, mirrors.Resend{})
	r.WantAfter("twice", soon, stands, stands)
}

// TestActorRestart: the second incarnation asks for all, and does nothing before it is told.
func TestActorRestart(t *testing.T) {
	r := newRig(t, node, statics("web=1"), found("web=1"))
	r.WantAfter("as it should be", soon, stands)
	r.actor.Crash()
	r.tells(mirrors.Resend{})
	r.WantAfter("the crash", time.Second, "all: repeat")
	r.tells(statics("web=1"), node)
	r.WantAfter("the mirrors are not known", soon)
	r.tells(found("web=1"))
	r.WantAfter("all is known", soon, stands)
}

// TestOverflow: of mirrors the newest count, so that many fit into the mailbox. Others may
// be lost, and then all is asked for.
func TestOverflow(t *testing.T) {
	r := newRig(t, node)
	for range 10 {
		r.actor.Tell(found("web=1"))
	}
	r.actor.Tell(statics("web=1"))
	r.WantAfter("the newest", soon, stands)
	for range 4 { // the mailbox has room for three
		r.actor.Tell(node)
	}
	r.WantAfter("one more than there is room for", time.Second, "all: repeat")
}

// TestRestored: of a mirror that comes back in an older version, status is told so.
func TestRestored(t *testing.T) {
	version := func(v string) mirrors.Found {
		m := found("web=1")
		m.Mirrors[0].ResourceVersion = v
		return m
	}
	r := newRig(t, node, statics("web=1"), version("500"))
	r.Want("it stands", stands)
	r.tells(version("501"))
	r.Want("a newer version", stands)
	r.tells(version("7"))
	r.Want("an older version", "status: web is mirrored by an older version of mirror1")
	r.tells(version("8"))
	r.Want("a newer one again", stands)
}
