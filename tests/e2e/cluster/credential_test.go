package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// complaints are the lines of the agent's log, at level warn or above, that contain a word.
func (b *bed) complaints(word string) (found []string) {
	for line := range strings.Lines(b.Log()) {
		if (strings.Contains(line, " WRN ") || strings.Contains(line, " ERR ")) && strings.Contains(line, word) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// TestWrongCredential is a node whose certificate has expired: the log says so once, the agent and
// its static pods run, and with a new certificate in the same file it becomes a node, with no restart.
//
//tier:served
func TestWrongCredential(t *testing.T) {
	t.Parallel()
	b := newBed(t, "wrong-credential", onServed, func(s *setup) { s.identity = lab.Identity{Files: true, Lifetime: -time.Hour} })
	check.Fatal(t, b.Write("static.yaml", fmt.Sprintf(manifest, lab.WebImage, "1")))
	check.Fatal(t, b.Launch())
	b.await(t, "the static pod runs", func() error {
		n := len(b.world(t).Running())
		return check.That(n == 1, "%d containers run", n)
	})
	b.await(t, "the log says what is wrong", func() error {
		if len(b.complaints("the credential")) == 0 {
			return fmt.Errorf("it says %s", b.LogTail(2000))
		}
		return nil
	})
	if got := b.complaints("apiserver"); len(got) != 1 {
		t.Errorf("want one line:\n%s", strings.Join(got, "\n"))
	}
	check.Value(b.plane.KubeconfigOf(lab.Identity{User: "system:node:" + b.name, Groups: []string{"system:nodes"}, Files: true}))(t)
	b.awaitNode(t, "is ready for pods", usable)
	check.Error(t, b.Running())
	b.create(t, b.pod("web", nil))
	b.awaitPod(t, "web", "is ready", ready)
	check.Fatal(t, b.Remove("static.yaml"))
	there := *b
	there.name = "default"
	there.awaitGone(t, "static-"+b.name)
}

// TestCertificateReplaced is what rotation does to the files: the node goes on as before.
//
//tier:served
func TestCertificateReplaced(t *testing.T) {
	t.Parallel()
	b := newBed(t, "cert-replaced", onServed, func(s *setup) { s.identity = lab.Identity{Files: true, Lifetime: 20 * time.Second} })
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	begun := time.Now()
	b.create(t, b.pod("before", nil))
	b.awaitPod(t, "before", "is ready", ready)
	check.Value(b.plane.KubeconfigOf(lab.Identity{User: "system:node:" + b.name, Groups: []string{"system:nodes"}, Files: true}))(t)
	b.await(t, "the first certificate has expired", func() error {
		left := 25*time.Second - time.Since(begun)
		return check.That(left <= 0, "%v are left", left)
	})
	b.create(t, b.pod("after", nil))
	b.awaitPod(t, "after", "is ready", ready)
	if c := condition(b.node(t), v1.NodeReady); c.Status != v1.ConditionTrue {
		t.Errorf("the node is %+v", c)
	}
	if got := b.complaints("the credential"); len(got) > 0 {
		t.Errorf("the log says %s", strings.Join(got, "\n"))
	}
}

// TestNotOurNode is a credential of another node: the apiserver takes it and forbids all; the log says
// what, and the agent goes on trying.
//
//tier:served
func TestNotOurNode(t *testing.T) {
	t.Parallel()
	b := newBed(t, "not-our-node", onServed, func(s *setup) { s.agent.Flags = []string{"--hostname-override", "not-our-node-2"} })
	check.Fatal(t, b.Launch())
	b.await(t, "the log says what is wrong", func() error {
		if len(b.complaints("forbidden")) == 0 {
			return fmt.Errorf("it says %s", b.LogTail(2000))
		}
		return nil
	})
	check.Error(t, b.Running())
}
