package mirrors_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/mirrors"
	"github.com/troupe-dev/troupe/actors/port"
)

const (
	create = "create web of 1, owned by node"
	stands = "status: web is mirrored by mirror1"
)

// TestCreate: a mirror needs to be wanted, not to be there, and the node that owns it.
func TestCreate(t *testing.T) {
	r := newRig(t, statics("web=1"))
	r.want("the apiserver has not said which there are", soon)
	r.tells(found())
	r.want("the node is not known", soon)
	r.tells(node)
	r.want("all is known", soon, create)
	r.tells(found("web=1"))
	r.want("it is there", soon, stands)
	r.tells(found("web=1"), statics("web=1"), node)
	r.Advance(time.Hour)
	r.want("nothing is to be done", soon, stands) // a newer version of the mirror
}

// TestReplace: an outdated mirror is deleted, and created again when it is gone.
func TestReplace(t *testing.T) {
	r := newRig(t, node, statics("web=1"), found("web=1"))
	r.want("as it should be", soon, stands)
	r.tells(statics("web=2"))
	r.want("another manifest", soon, "delete web, if it is mirror1", "status: web has lost mirror1")
	r.tells(found())
	r.want("it is gone", soon, "create web of 2, owned by node")
	r.tells(found("web=2"))
	r.want("the new one is there", soon, "status: web is mirrored by mirror2")
}

// TestClientDeletes: a mirror that a client deletes, gracefully or at once, is created again.
func TestClientDeletes(t *testing.T) {
	r := newRig(t, node, statics("web=1"), found("web=1"))
	r.want("as it should be", soon, stands)
	deleted := found("web=1")
	deleted.Mirrors[0].DeletionTimestamp = &metav1.Time{Time: begin}
	r.tells(deleted)
	r.want("gracefully", soon, "delete web, if it is mirror1", "status: web has lost mirror1")
	r.tells(found())
	r.want("it is gone", soon, create)
	r.tells(found("web=1"))
	r.want("it is there", soon, stands)
	r.tells(found())
	r.want("at once", soon, create, "status: web has lost mirror1")
}

// TestOrphan: a mirror without a static pod is deleted, once all static pods are known.
func TestOrphan(t *testing.T) {
	r := newRig(t, node, mirrors.Statics{}, found("old=1"))
	r.want("others may come", time.Hour)
	r.tells(statics())
	r.want("none comes", soon, "delete old, if it is mirror1")
	r.tells(found())
	r.want("it is gone", time.Hour)
}

// TestFailure: a call is made again after a wait that doubles. The log has the first failure alone.
func TestFailure(t *testing.T) {
	r := newRig(t)
	r.err = errors.New("quota exceeded")
	r.tells(node, statics("web=1"), found())
	r.want("the first try", soon, create)
	for _, wait := range []time.Duration{base, 2 * base, 4 * base} {
		begun := r.Now()
		if !r.RunUntil(begun.Add(2*wait), func() bool { return len(r.said) > 0 }) {
			t.Fatalf("no try within %v", 2*wait)
		}
		if got := r.Now().Sub(begun); got < wait/2-soon || got > wait {
			t.Errorf("the next try comes after %v, want between half of %v and all of it", got, wait)
		}
		r.want("the next try", soon, create)
	}
	warned := strings.Count(r.log.String(), `"level":"warn"`)
	if warned != 1 || !strings.Contains(r.log.String(), "quota exceeded") {
		t.Errorf("warned %d times, want once: %s", warned, &r.log)
	}
	r.tells(statics())
	r.want("nobody wants it any more", time.Hour)
}

// TestEcho: what was done shows in what apipods tells. If it does not, it is done again.
func TestEcho(t *testing.T) {
	r := newRig(t, node, statics("web=1"), found())
	r.want("it is created", echo-soon, create)
	r.tells(statics("web=1"))
	r.want("asked meanwhile", soon)
	r.want("no echo", 2*soon, create)
	r.tells(found("web=1"))
	r.want("the echo", time.Hour, stands)
}

// TestGoneAlready: that what is to be deleted is not there is no failure.
func TestGoneAlready(t *testing.T) {
	r := newRig(t)
	r.err = &port.Error{Kind: port.NotFound, Verb: "Delete"}
	r.tells(statics(), found("old=1"))
	r.want("not found", echo-soon, "delete old, if it is mirror1")
	if r.log.Len() != 0 {
		t.Errorf("the log says %s", &r.log)
	}
}

// TestNoAnswer: nothing else is done about that name until the deadline, and others do not wait for it.
// The late answer is of no use.
func TestNoAnswer(t *testing.T) {
	r := newRig(t)
	r.silent = true
	r.tells(node, statics("web=1"), found())
	r.want("the call", deadline/2, create)
	r.silent = false
	r.tells(statics("web=1", "db=1"), found())
	r.want("another pod", soon, "create db of 1, owned by node")
	r.tells(found("db=1"))
	r.want("the other one stands", soon, "status: db is mirrored by mirror1")
	r.want("after the deadline", deadline/2+base, create)
	r.late[0]()
	r.want("the late answer", soon)
	if !strings.Contains(r.log.String(), "no answer within 30s") {
		t.Errorf("the log says %s", &r.log)
	}
}

// TestResend: status restarted, and is told of all that stand.
func TestResend(t *testing.T) {
	r := newRig(t, node, statics("web=1"), found("web=1"))
	r.want("as it should be", soon, stands)
	r.tells(mirrors.Resend{}, mirrors.Resend{})
	r.want("twice", soon, stands, stands)
}

// TestActorRestart: the second incarnation asks for all, and does nothing before it is told.
func TestActorRestart(t *testing.T) {
	r := newRig(t, node, statics("web=1"), found("web=1"))
	r.want("as it should be", soon, stands)
	r.crash = true
	r.tells(mirrors.Resend{})
	r.want("the crash", time.Second, "all: repeat")
	r.tells(statics("web=1"), node)
	r.want("the mirrors are not known", soon)
	r.tells(found("web=1"))
	r.want("all is known", soon, stands)
}

// TestOverflow: of static pods and mirrors the newest count, so that many fit into the mailbox. Others may
// be lost, and then all is asked for.
func TestOverflow(t *testing.T) {
	r := newRig(t, node)
	for range 10 {
		r.ref.Tell(statics("old=1"))
		r.ref.Tell(found("web=1"))
	}
	r.ref.Tell(statics("web=1"))
	r.want("the newest", soon, stands)
	for range 4 { // the mailbox has room for three
		r.ref.Tell(node)
	}
	r.want("one more than there is room for", soon, "all: repeat")
}
