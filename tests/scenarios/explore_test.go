package scenarios

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// havoc is a random life of a node: pods come, change and go, and everything
// that can go wrong does.
type havoc struct {
	*world
	rng *rand.Rand
	// trouble is the chance that a call goes wrong, panic that a message does.
	trouble, panics float64
	did             []string
	// acts does one thing to the node.
	acts func()
	// aside are manifests that were removed, by name: they may come back as they were.
	aside map[string]*spec
}

func newHavoc(t testing.TB, seed uint64, options ...option) *havoc {
	rng := rand.New(rand.NewPCG(seed, 0x6861766f63))
	events := []simcri.EventPolicy{{}, {}, {Off: true}, {Drop: 0.2, Duplicate: 0.2, Delay: simcri.Uniform(0, time.Second)}}
	w := newWorld(t, seed, append([]option{withEvents(events[rng.IntN(len(events))]), withLateEffects(0.5)}, options...)...)
	h := &havoc{world: w, rng: rng, aside: map[string]*spec{}}
	h.acts = h.act
	w.fault = h.callFault
	w.host.Fault = h.hostFault
	w.configure = append(w.configure, func(c *agent.Config) {
		c.PullDeadline = 3 * time.Minute // a real runtime ends a pull without progress
	})
	w.around = h.messageFault
	t.Cleanup(func() {
		if t.Failed() {
			for _, l := range h.did[max(0, len(h.did)-40):] {
				t.Log(l)
			}
			if h.cluster != nil {
				t.Log(h.cluster.well())
			}
			t.Logf("again: TROUPE_SEED=%d go test ./tests/scenarios -run '%s'", seed, t.Name())
		}
	})
	w.start()
	return h
}

func (h *havoc) callFault(c simcri.Call) simcri.Fault {
	if h.trouble == 0 || h.rng.Float64() > h.trouble || c.Method == simcri.Events {
		return simcri.Fault{}
	}
	kinds := []port.ErrorKind{port.Other, port.Unavailable, port.NameReserved, port.StateConflict, port.Deadline}
	f := simcri.Fault{Kind: kinds[h.rng.IntN(len(kinds))], Detail: "havoc"}
	switch h.rng.IntN(6) {
	case 0:
		f.Hang = true
	case 1:
		f.LoseReply = true
	case 2:
		f.Partial = true
	case 3:
		f = simcri.Fault{Latency: time.Duration(h.rng.IntN(5000)) * time.Millisecond}
	default:
		f.Fail = true
	}
	return f
}

func (h *havoc) hostFault(c machine.Call) (f machine.Fault) {
	defer func() { h.rules.Hosted(c, f) }()
	if h.trouble == 0 || h.rng.Float64() > h.trouble {
		return machine.Fault{}
	}
	if h.rng.IntN(3) == 0 {
		return machine.Fault{Hang: true}
	}
	return machine.Fault{Err: &port.Error{Verb: c.Verb, Detail: "havoc"}}
}

func (h *havoc) messageFault(actor string, m any, _ bool) {
	if h.panics > 0 && h.rng.Float64() < h.panics {
		panic(fmt.Sprintf("%s: %s on %T", planted, actor, m))
	}
}

func (h *havoc) say(format string, args ...any) {
	h.did = append(h.did, fmt.Sprintf("%v ", h.v.Now().Sub(epoch))+fmt.Sprintf(format, args...))
}

// anyPod is a random pod that is called name.
func (h *havoc) anyPod(name string) *spec {
	s := emptyPod(name).grace(int64(h.rng.IntN(6)))
	if h.rng.IntN(3) == 0 {
		s.init("setup")
	}
	if h.rng.IntN(4) == 0 {
		s.sidecar("proxy")
	}
	s.main("app")
	if h.rng.IntN(3) == 0 {
		s.main("log")
	}
	for i := range h.rng.IntN(3) {
		s.volume(fmt.Sprintf("v%d", i))
	}
	if h.rng.IntN(4) == 0 {
		s.script("app", "term-delay", fmt.Sprintf("%dms", h.rng.IntN(4000)))
	}
	if h.rng.IntN(6) == 0 {
		s.script("app", "crash-loop", strconv.Itoa(1+h.rng.IntN(2))).script("app", "run-for", "500ms")
	}
	if h.rng.IntN(8) == 0 {
		s.script("app", "ignore-term", "true")
	}
	for i := range s.Spec.Containers {
		h.probe(s, &s.Spec.Containers[i])
	}
	return s.image(fmt.Sprintf("registry.test/app:%d", h.rng.IntN(5))).note("version", strconv.Itoa(h.rng.IntN(1000)))
}

// probe gives a container probes, which it answers as a rule.
func (h *havoc) probe(s *spec, c *v1.Container) {
	some := func() *v1.Probe {
		if h.rng.IntN(3) > 0 {
			return nil
		}
		p := []*v1.Probe{httpProbe("/"), tcpProbe(), grpcProbe(), execProbe("check")}[h.rng.IntN(4)]
		p.PeriodSeconds, p.TimeoutSeconds = int32(1+h.rng.IntN(12)), int32(1+h.rng.IntN(3))
		p.FailureThreshold = int32(3 + h.rng.IntN(3))
		return p
	}
	c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = some(), some(), some()
	switch h.rng.IntN(8) {
	// What asks whether it is ready may ask the same whether it has started: both
	// are in time for a startup probe.
	case 0:
		s.script(c.Name, "startup-time", fmt.Sprintf("%dms", h.rng.IntN(1500)))
	case 1:
		s.script(c.Name, "ready-after", fmt.Sprintf("%dms", h.rng.IntN(1500)))
	case 2:
		s.script(c.Name, "probe-delay", fmt.Sprintf("0ms..%dms", h.rng.IntN(900)))
	}
}

// act does one thing to the node.
func (h *havoc) act() {
	name := fmt.Sprintf("p-%d", h.rng.IntN(12))
	truth := h.rt.Truth().Runtime
	switch n := h.rng.IntN(24); {
	case n < 7:
		h.say("write %s", name)
		h.add(h.anyPod(name))
	case n < 10:
		h.remove(name)
	case n >= 20:
		h.moveBack(name)
	case n < 14:
		var ids []string
		for _, p := range truth.Pods {
			for _, c := range p.Containers {
				if c.State == observed.ContainerRunning {
					ids = append(ids, c.ID)
				}
			}
		}
		if len(ids) > 0 {
			id := ids[h.rng.IntN(len(ids))]
			h.say("crash %s", id)
			if err := h.rt.EndContainer(id, simcri.Exit{Code: 1}); err != nil {
				h.failf("%v", err)
			}
		}
	case n < 15:
		for _, p := range truth.Pods {
			if s, ready := p.ReadySandbox(); ready && h.rng.IntN(4) == 0 {
				h.say("end sandbox %s of %s", s.ID, p.Ref)
				if err := h.rt.EndSandbox(s.ID); err != nil {
					h.failf("%v", err)
				}
				break
			}
		}
	case n < 16 && h.trouble > 0:
		h.say("kill the agent")
		h.restart()
	case n < 17 && h.trouble > 0:
		h.say("kill the runtime")
		h.rt.Kill()
		h.run(time.Duration(h.rng.IntN(3000)) * time.Millisecond)
		h.rt.Restart()
	case n < 18:
		h.say("break %s", name)
		if h.watch.wanted[name] != nil {
			h.manifests.Write(name+".yaml", []byte("spec: {"))
		}
	default:
		h.say("mend %s", name)
		if s := h.watch.wanted[name]; s != nil {
			h.manifests.Write(name+".yaml", []byte(s.yaml()))
		}
	}
}

// remove takes the manifest of a pod away.
func (h *havoc) remove(name string) {
	h.say("remove %s", name)
	if s := h.watch.wanted[name]; s != nil {
		h.aside[name] = s
	}
	h.drop(name)
}

// moveBack puts a manifest back that was taken away, maybe a moment ago: it is of the
// same pod. If none of the name was, it takes one away.
func (h *havoc) moveBack(name string) {
	s := h.aside[name]
	if s == nil || h.watch.wanted[name] != nil {
		h.remove(name)
		return
	}
	h.say("move %s back", name)
	delete(h.aside, name)
	h.add(s)
}

// live lets the node live through n things.
func (h *havoc) live(n int) {
	for range n {
		h.acts()
		d := time.Duration(h.rng.IntN(400)) * time.Millisecond
		if h.rng.IntN(10) == 0 {
			d = time.Duration(h.rng.IntN(30)) * time.Second
		}
		h.run(d)
		h.revive()
	}
}

// revive starts another agent if one gave up.
func (h *havoc) revive() {
	if h.fatal != nil {
		h.say("the agent gave up")
		h.kill()
		h.fatal = nil
		h.start()
	}
}

// mend ends all trouble, and wants the node to be well within bounded time.
func (h *havoc) mend() {
	h.heal()
	h.quiet()
}

// heal is mend for a node that may do something at the end.
func (h *havoc) heal() {
	h.trouble, h.panics = 0, 0
	for _, name := range sorted(h.watch.wanted) {
		h.manifests.Write(name+".yaml", []byte(h.watch.wanted[name].yaml()))
	}
	h.revive()
	// The longest: a call that hung until its deadline of 4 minutes, twice, and
	// a crash backoff of 5 minutes.
	h.allUp(20 * time.Minute)
	h.run(6 * time.Minute)
	h.allUp(10 * time.Minute)
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// seeds are the one in TROUPE_SEED, or n from first on. With the race detector they are few: CI runs all without it.
func seeds(t *testing.T, first, n uint64) (out []uint64) {
	if s := os.Getenv("TROUPE_SEED"); s != "" {
		seed := check.Value(strconv.ParseUint(s, 10, 64))(t)
		return []uint64{seed}
	}
	if s := os.Getenv("TROUPE_SEEDS"); s != "" {
		n = check.Value(strconv.ParseUint(s, 10, 64))(t)
	} else if testing.Short() || actortest.Raced {
		n = min(n, 2)
	}
	for i := range n {
		out = append(out, first+i)
	}
	return out
}

// explorer is a node that things happen to.
type explorer interface {
	live(n int)
	mend()
	kill()
}

// explore lets nodes live through sixty things each, one a seed. Calls go wrong, and messages are panics, so often.
func explore[E explorer](
	t *testing.T, first uint64, trouble, panics float64, begin func(t testing.TB, seed uint64, trouble, panics float64) E,
) {
	t.Parallel()
	for _, seed := range seeds(t, first, 20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := begin(t, seed, trouble, panics)
			h.live(60)
			h.mend()
			h.kill()
		})
	}
}

func troubled(t testing.TB, seed uint64, trouble, panics float64) *havoc {
	h := newHavoc(t, seed)
	h.trouble, h.panics = trouble, panics
	return h
}

func TestExploreLife(t *testing.T)   { explore(t, 1, 0, 0, troubled) }
func TestExploreFaults(t *testing.T) { explore(t, 1000, 0.05, 0, troubled) }
func TestExplorePanics(t *testing.T) { explore(t, 2000, 0, 0.002, troubled) }
func TestExploreAll(t *testing.T)    { explore(t, 3000, 0.05, 0.002, troubled) }
