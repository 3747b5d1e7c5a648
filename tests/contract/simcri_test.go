package contract_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/cri"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/supervisor/host"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/contract"
)

func TestMain(m *testing.M) {
	host.RunChildIfAsked()
	goleak.VerifyTestMain(m)
}

const (
	appImage     = "registry.test/contract/app:1"
	pullImage    = "registry.test/contract/pull:1"
	missingImage = "registry.test/contract/missing:1"
)

// simulated is what the suite needs to know of any simulated runtime.
func simulated(r *simcri.Runtime) contract.Subject {
	script := func(pairs ...string) contract.Program {
		p := contract.Program{Image: appImage, Annotations: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			p.Annotations[simcri.AnnotationPrefix+pairs[i]] = pairs[i+1]
		}
		return p
	}
	return contract.Subject{
		Runtime: r,
		Forever: script(),
		Exits: func(code int32, after time.Duration) contract.Program {
			return script("exit-code", fmt.Sprint(code), "run-for", after.String())
		},
		EndsOnTERM: func(code int32, after time.Duration) contract.Program {
			return script("term-exit-code", fmt.Sprint(code), "term-delay", after.String())
		},
		IgnoresTERM: script("ignore-term", "true"),
		Exec: func(code int32, output string) (contract.Program, []string) {
			return script("exec-exit-code", fmt.Sprint(code), "exec-output", output), []string{"say"}
		},
		ExecHangs: func() (contract.Program, []string) {
			return script("exec-hang", "true"), []string{"hang"}
		},
		Pullable: pullImage, MissingImage: missingImage, HasEvents: true,
		LogDirectory: func(namespace, name, uid string) string {
			return "/var/log/pods/" + namespace + "_" + name + "_" + uid
		},
	}
}

func newRuntime(t *testing.T, clock simcri.Clock, change func(*simcri.Config)) *simcri.Runtime {
	t.Helper()
	registry := simcri.NewRegistry()
	registry.Withdraw(missingImage)
	for _, name := range []string{appImage, pullImage} {
		registry.Put(name, simcri.RegistryImage{SizeBytes: 2 << 20})
	}
	cfg := simcri.Config{
		Clock: clock, Registry: registry,
		Rand: func(stream string) *rand.Rand {
			h := fnv.New64a()
			fmt.Fprint(h, stream)
			return rand.New(rand.NewPCG(7, h.Sum64()))
		},
	}
	change(&cfg)
	return check.Value(simcri.New(cfg))(t)
}

func noEvents(c *simcri.Config) { c.Events.Off = true }

func inProcess(change func(*simcri.Config), events bool) func(*testing.T) contract.Subject {
	return func(t *testing.T) contract.Subject {
		clock, passing := contract.Virtually()
		s := simulated(newRuntime(t, clock, change))
		s.HasEvents = events
		s.Now, s.Step, s.Advance, s.Context = passing.Now, passing.Step, passing.Advance, passing.Context
		return s
	}
}

// TestSimulatedRuntime runs the suite on the simulated runtime in process, on a
// virtual clock.
func TestSimulatedRuntime(t *testing.T) {
	contract.Runtime(t, inProcess(func(*simcri.Config) {}, true))
}

func TestSimulatedRuntimeWithoutEvents(t *testing.T) {
	contract.Runtime(t, inProcess(noEvents, false))
}

// TestSimulatedRuntimeBadEvents: the suite asks for no more of events than that
// they come some time.
func TestSimulatedRuntimeBadEvents(t *testing.T) {
	contract.Runtime(t, inProcess(func(c *simcri.Config) {
		c.Events.Delay = simcri.Uniform(0, 3*time.Second)
		c.Events.Duplicate = 0.5
	}, true))
}

func overSocket(change func(*simcri.Config), events bool) func(*testing.T) contract.Subject {
	return func(t *testing.T) contract.Subject {
		t.Parallel()
		directory := check.Value(os.MkdirTemp("", "contract"))(t)
		r := newRuntime(t, kernel.WallClock{}, change)
		socket := filepath.Join(directory, "cri.sock")
		listener := check.Value(net.Listen("unix", socket))(t)
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- simcri.Serve(ctx, listener, r) }()
		node := &translate.Node{PodLogs: filepath.Join(directory, "logs")}
		client := check.Value(cri.Dial(ctx, cri.Config{Endpoint: socket, Node: func() *translate.Node { return node }}))(t)
		t.Cleanup(func() {
			client.Close()
			cancel()
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
			check.Error(t, os.RemoveAll(directory))
		})
		s := simulated(r)
		s.Runtime, s.Now, s.HasEvents = client, time.Now, events
		s.LogDirectory = func(namespace, name, uid string) string {
			return filepath.Join(node.PodLogs, namespace+"_"+name+"_"+uid)
		}
		return s
	}
}

// TestServedRuntime runs the suite through the real client, over a socket, on
// the wall clock.
func TestServedRuntime(t *testing.T) {
	contract.Runtime(t, overSocket(func(*simcri.Config) {}, true))
}

func TestServedRuntimeWithoutEvents(t *testing.T) {
	contract.Runtime(t, overSocket(noEvents, false))
}
