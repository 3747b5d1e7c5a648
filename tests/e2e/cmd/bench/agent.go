package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// subject is an agent under measurement, with its runtime and a directory of marks.
type subject struct {
	*node.Agent
	bench *bench
	lab   *lab.Lab
	marks string
}

// subject prepares an agent with a fresh root directory on the release's containerd. It does not
// start it. end comes last.
func (b *bench) subject(ctx context.Context, release lab.Release) (_ *subject, err error) {
	defer check.Return(&err)
	l := check.Must(b.lab(ctx, release))
	// A short path: it ends up in that of a socket.
	dir := check.Must(os.MkdirTemp(b.dir, "n-"))
	agent, err := node.New(node.Config{Binary: b.binary, Dir: dir, Endpoint: l.Endpoint(), CgroupRoot: l.CgroupRoot()})
	if err != nil {
		return nil, err
	}
	marks := filepath.Join(dir, "marks")
	return &subject{agent, b, l, marks}, os.MkdirAll(marks, 0o755)
}

// end stops the agent, removes its pods past it and all it kept, its log first copied if that is
// wanted.
func (s *subject) end(err *error) {
	check.Ended(recover(), err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if *err != nil {
		*err = fmt.Errorf("%w; the end of the agent's log:\n%s", *err, s.LogTail(1500))
	}
	*err = errors.Join(*err, s.Stop(ctx), s.bench.wipe(ctx, s.lab))
	if s.bench.keep {
		name := "agent-" + filepath.Base(filepath.Dir(s.Root())) + ".log"
		*err = errors.Join(*err, os.WriteFile(filepath.Join(s.bench.dir, name), []byte(s.Log()), 0o644))
	}
	*err = errors.Join(*err, s.Discard())
}

// names are n pod names.
func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return out
}

// add writes the manifests of pods that leave marks, all at once, and tells when it began.
func (s *subject) add(pods ...string) (_ time.Time, err error) {
	defer check.Return(&err)
	// Written aside first: what is measured begins when the agent can see them.
	aside := filepath.Join(filepath.Dir(s.Manifests()), "aside")
	check.OK(os.MkdirAll(aside, 0o755))
	for _, name := range pods {
		check.OK(os.WriteFile(filepath.Join(aside, name+".yaml"), []byte(node.MarkPod(name, s.marks)), 0o644))
	}
	begin := time.Now()
	for _, name := range pods {
		if err := os.Rename(filepath.Join(aside, name+".yaml"), filepath.Join(s.Manifests(), name+".yaml")); err != nil {
			return begin, err
		}
	}
	return begin, nil
}

// start adds pods and waits until their programs run, and tells how long each took.
func (s *subject) start(ctx context.Context, pods ...string) (_ samples, err error) {
	defer check.Return(&err)
	begin := check.Must(s.add(pods...))
	at := check.Must(node.AwaitMarks(ctx, allPatience, s.marks, 1, pods...))
	return since(begin, at), nil
}

// stop takes pods away and waits until the agent lists none of them any more, and tells how long
// that took.
func (s *subject) stop(ctx context.Context, pods ...string) (time.Duration, error) {
	begin := time.Now()
	for _, name := range pods {
		if err := s.Remove(name + ".yaml"); err != nil {
			return 0, err
		}
	}
	err := lab.Eventually(ctx, allPatience, "the pods are gone", func() error {
		view := check.Must(s.Pods(ctx))
		for _, name := range pods {
			if p, there := view.Pod(name); there && p.Life != "Terminated" {
				return fmt.Errorf("pod %s is %s", name, p.Life)
			}
		}
		return nil
	})
	took := time.Since(begin)
	for _, name := range pods {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.marks, name)))
	}
	return took, err
}

// settled waits until the agent lists all pods as running, and returns the list.
func (s *subject) settled(ctx context.Context, pods ...string) (node.View, error) {
	var view node.View
	err := lab.Eventually(ctx, allPatience, "the agent lists all pods as running", func() error {
		view = check.Must(s.Pods(ctx))
		return allRunning(view, pods)
	})
	return view, err
}

func allRunning(view node.View, pods []string) error {
	for _, name := range pods {
		p, there := view.Pod(name)
		if !there {
			return fmt.Errorf("pod %s is not listed", name)
		}
		if err := p.Running(); err != nil {
			return err
		}
	}
	return nil
}

// ids are the container IDs by pod, as the agent tells them.
func ids(view node.View, pods []string) map[string]string {
	out := map[string]string{}
	for _, name := range pods {
		if p, there := view.Pod(name); there {
			var all []string
			for _, c := range p.Containers {
				all = append(all, c.ID)
			}
			out[name] = strings.Join(all, " ")
		}
	}
	return out
}

// checkWorld notes what is doubled, missing, or restarted.
func (s *subject) checkWorld(ctx context.Context, when string, pods ...string) (err error) {
	defer check.Return(&err)
	world := check.Must(node.Look(ctx, s.lab))
	for _, twice := range world.Doubled() {
		s.bench.fault("%s: %s", when, twice)
	}
	for _, name := range pods {
		of := world.Of(name)
		if len(of.Ready()) != 1 || len(of.Running()) != 1 {
			s.bench.fault("%s: pod %s has %d living sandboxes and %d running containers; want one of each",
				when, name, len(of.Ready()), len(of.Running()))
		}
		mark := check.Must(node.ReadMark(s.marks, name))
		if mark.Starts != 1 {
			s.bench.fault("%s: the program of pod %s was started %d times; want once", when, name, mark.Starts)
		}
	}
	return nil
}

// checkEmpty notes what is there still after every pod was taken away.
func (s *subject) checkEmpty(ctx context.Context, when string) {
	err := lab.Eventually(ctx, podPatience, "nothing is left", func() error {
		world := check.Must(node.Look(ctx, s.lab))
		check.OK(world.Empty())
		if left := node.Leftovers(s.Daemon, s.lab); len(left) > 0 {
			return fmt.Errorf("%d things are, the first: %s", len(left), left[0])
		}
		return nil
	})
	if err != nil {
		s.bench.fault("%s: %v", when, err)
	}
}
