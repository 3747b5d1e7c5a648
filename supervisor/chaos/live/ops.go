package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
)

// manifestPrefix begins the files of static pods, so that they can be told from others.
const manifestPrefix = "troupe-chaos-"

// do does one operation. What can't be done just now (a container that does not run can't end) is
// not done.
func (l *liveRun) do(ctx context.Context, o *plan.Op) error {
	wait, _ := time.ParseDuration(o.Arg("for"))
	switch o.Verb {
	case plan.Create:
		return l.create(ctx, o)
	case plan.Write:
		return l.write(o)
	case plan.Delete, plan.Force, plan.Remove:
		return l.remove(ctx, o)
	case plan.Image:
		return l.image(ctx, o)
	case plan.Exit:
		return l.exec(ctx, o.Role, endCommand(o.Arg("code")))
	case plan.OOM:
		return l.exec(ctx, o.Role, oomCommand)
	case plan.EndSandbox:
		l.lookNow(ctx)
		l.mu.Lock()
		id := l.world.history.ReadySandbox(o.Role.Pod)
		l.mu.Unlock()
		if id != "" {
			return l.runtime.killSandbox(ctx, id)
		}
	case plan.Restart:
		l.restart(max(wait, restartDelay))
	case plan.DownRuntime:
		return l.config.KillRuntime(ctx, max(wait, runtimeDelay))
	case plan.CutOff:
		l.stands(wait)
		l.way.Hang()
		l.after(wait, func() {
			if err := l.way.Heal(); err != nil {
				l.config.Log.Error().Err(err).Msg("cannot restart the proxy to the apiserver")
			}
		})
	case plan.Pause:
		l.stands(wait)
		l.agent.signal(syscall.SIGSTOP)
		l.after(wait, func() { l.agent.signal(syscall.SIGCONT) })
	default:
		return fmt.Errorf("%s is not possible on a real node", o.Verb) // the case was looked at before
	}
	return nil
}

func (l *liveRun) after(d time.Duration, f func()) { l.timers = append(l.timers, time.AfterFunc(d, f)) }

// stands tells the rules that the agent hears nothing for so long.
func (l *liveRun) stands(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.world.rules.Stands(d + lag)
}

// pod is what an operation makes.
func (l *liveRun) pod(o *plan.Op) (*v1.Pod, error) {
	var oom []plan.Role
	for i := range l.world.c.Ops {
		if l.world.c.Ops[i].Verb == plan.OOM {
			oom = append(oom, l.world.c.Ops[i].Role)
		}
	}
	return l.config.pod(o, l.namespace, oom)
}

func (l *liveRun) want(name string, p *v1.Pod) error {
	// What a pod is to do is read from the words of its shape, which a real one does not have.
	shape, err := plan.ShapeOf(&l.world.c.Ops[l.next])
	if err != nil {
		return err
	}
	asked := p.DeepCopy()
	asked.Annotations = shape.Pod.Annotations
	l.mu.Lock()
	defer l.mu.Unlock()
	l.world.history.Want(name, asked, l.world.c.Ops[l.next].Verb == plan.Write, time.Now())
	l.world.ends.looping[name] = l.world.history.Loops(name) && asked.Spec.RestartPolicy != v1.RestartPolicyNever
	return nil
}

func (l *liveRun) create(ctx context.Context, o *plan.Op) error {
	p, err := l.pod(o)
	if err != nil {
		return err
	}
	if err := l.cluster.create(ctx, p); apierrors.IsAlreadyExists(err) {
		return nil // there is one of the name, which is to go first
	} else if err != nil {
		return err
	}
	return l.want(o.Role.Pod, p)
}

func (l *liveRun) manifest(name string) string {
	return filepath.Join(l.config.Manifests, manifestPrefix+l.namespace+"-"+name+".json")
}

func (l *liveRun) write(o *plan.Op) error {
	p, err := l.pod(o)
	if err != nil {
		return err
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	name := o.Role.Pod
	l.mu.Lock()
	l.world.static[name] = p
	l.mu.Unlock()
	// The agent must not read half of it, and reads no file that begins with a dot.
	if err := durable.WriteAt(l.manifest(name), data, 0o600, durable.Whole); err != nil {
		return err
	}
	return l.want(name, p)
}

func (l *liveRun) remove(ctx context.Context, o *plan.Op) error {
	name := o.Role.Pod
	l.mu.Lock()
	l.world.history.Unwant(name)
	l.mu.Unlock()
	switch o.Verb {
	case plan.Remove:
		l.mu.Lock()
		delete(l.world.static, name)
		l.world.rules.Stands(lag)
		l.world.rules.Told(podspec.File, slices.Collect(maps.Values(l.world.static)))
		l.mu.Unlock()
		if err := os.Remove(l.manifest(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case plan.Force:
		return l.cluster.remove(ctx, name, new(int64))
	default:
		if g, err := strconv.ParseInt(o.Arg("grace"), 10, 64); err == nil {
			return l.cluster.remove(ctx, name, &g)
		}
		return l.cluster.remove(ctx, name, nil)
	}
}

// image gives a container the other name of its image: the same content, and another image for
// the agent.
func (l *liveRun) image(ctx context.Context, o *plan.Op) error {
	l.mu.Lock()
	kind, to := "", ""
	for _, p := range l.world.wanted {
		if c, k := podspec.Find(&p.Spec, o.Role.Container); c != nil && p.Name == o.Role.Pod {
			kind, to = "initContainers", l.images[0]
			if k == podspec.Main {
				kind = "containers"
			}
			if c.Image == to {
				to = l.images[1]
			}
		}
	}
	l.mu.Unlock()
	if kind == "" {
		return nil
	}
	return l.cluster.image(ctx, o.Role.Pod, kind, o.Role.Container, to)
}

// lookNow takes in what the runtime has. The agent may have heard of a start, and shown it, before this session: on a
// busy machine the events come late. An operation must not be left out for that.
func (l *liveRun) lookNow(ctx context.Context) {
	if err := l.runtime.look(ctx); err != nil { // it was killed, perhaps
		l.config.Log.Debug().Err(err).Msg("cannot list the pods of the runtime")
	}
}

// exec has a running container end from within. A command that is killed with it can't answer.
func (l *liveRun) exec(ctx context.Context, role plan.Role, command []string) error {
	l.lookNow(ctx)
	l.mu.Lock()
	id := l.world.history.RunningID(role)
	if id != "" {
		l.world.outside[id] = true
	}
	l.mu.Unlock()
	if id == "" {
		return nil
	}
	if err := l.runtime.exec(ctx, id, command); err != nil {
		l.config.Log.Debug().Err(err).Str("container", id).Msg("no answer of the command that ends a container")
	}
	return nil
}
