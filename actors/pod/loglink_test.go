package pod_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// links are those of the rig's containers, by ID. calls are all that was asked,
// with the state in which the container was when it was done.
type links struct {
	r     *rig
	made  map[string]bool
	calls []string
	err   error
}

var _ port.LogLinks = (*links)(nil)

func (l *links) took(what string, log port.LinkedLog, done func(error)) {
	l.r.AfterFunc(10*time.Millisecond, func() {
		l.r.rt.List(context.Background(), string(log.UID), func(list observed.Runtime, _ error) {
			state := "gone"
			for _, p := range list.Pods {
				for i := range p.Containers {
					if c := &p.Containers[i]; c.ID == log.ID {
						state = c.State.String()
					}
				}
			}
			l.calls = append(l.calls, fmt.Sprintf("%s %s: %s", what, log.LogRef, state))
			done(l.err)
		})
	})
}

func (l *links) LinkLog(_ context.Context, log port.LinkedLog, done func(error)) {
	l.made[log.ID] = true
	l.took("link", log, done)
}

func (l *links) UnlinkLog(_ context.Context, log port.LinkedLog, done func(error)) {
	delete(l.made, log.ID)
	l.took("unlink", log, done)
}

func (l *links) TidyLogLinks(context.Context, []port.LinkedLog, func(error)) {
	panic("that is for gc to ask")
}

func (l *links) linked(name string, attempt uint32) bool {
	c, ok := l.r.rt.Find("u1", name)
	return ok && c.Attempt == attempt && l.made[c.ID]
}

// TestLinkBeforeStart: each incarnation has the link of its log before it starts,
// and one for which none can be made starts all the same.
func TestLinkBeforeStart(t *testing.T) {
	for _, err := range []error{nil, errors.New("read-only file system")} {
		r := newRig(t, onePod("app"), map[string]*simcri.Script{"app": {CrashLoop: 1}})
		r.links.err = err
		r.until(time.Minute, "runs", r.in("app", observed.ContainerRunning, 0))
		r.until(5*time.Minute, "runs again", r.in("app", observed.ContainerRunning, 1))
		want := []string{"link default_web_u1/app/0.log: Created", "link default_web_u1/app/1.log: Created"}
		if !slices.Equal(r.links.calls, want) || !r.links.linked("app", 1) {
			t.Errorf("%v: %q, want %q", err, r.links.calls, want)
		}
	}
}

// TestUnlinkWhatIsRemoved: the link goes with the container that its pod's actor
// removes, after it: here one that the runtime does not start.
func TestUnlinkWhatIsRemoved(t *testing.T) {
	r := newRig(t, onePod("app"), nil)
	r.refuse = &port.Error{Kind: port.Other, Verb: "StartContainer", Detail: "no such file"}
	unlink := "unlink default_web_u1/app/0.log: gone"
	r.until(5*time.Minute, "given up", func() bool { return slices.Contains(r.links.calls, unlink) })
	if len(r.links.made) != 0 {
		t.Errorf("left: %v", r.links.made)
	}
	r.refuse = nil
	r.until(10*time.Minute, "runs", r.in("app", observed.ContainerRunning, 1))
	if len(r.links.made) != 1 || !r.links.linked("app", 1) {
		t.Errorf("links: %v", r.links.made)
	}
}
