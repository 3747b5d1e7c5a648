package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"
)

// Profile is what cases of seeds are made of. The zero value of each field is a good one.
type Profile struct {
	// Pods, Ops and Faults are how many there are at most; 6, 15 and 15 if zero.
	Pods, Ops, Faults int
	// Words are the shapes of pods to draw from, besides main=app; those of every kind if nil.
	Words [][]string
	// Verbs are the operations to draw from besides create and write; all if nil.
	Verbs []Verb
	// Effects are what goes wrong; all if nil.
	Effects []EffectKind
	// CSI: every case has a CSI driver, and half of its faults strike calls of it, where there are any.
	CSI bool
	// Private: pods of every case use an image that needs a credential, half of them without one.
	Private bool
	// Panics: half of the faults of every case are panics within ports, and calls that take much memory.
	Panics bool
	// Nodes is how many nodes there are, with workloads and controllers; see Cluster. 0 for one node
	// without those.
	Nodes int
}

// words are what a pod may have on top of its main container.
var words = [][]string{
	{"init=setup"}, {"sidecar=proxy"}, {"main=log"}, {"volume=data"}, {"ready=app"},
	{"live=app", "app.unhealthy-after=20s"},
	{"startup=app", "app.startup-time=3s"}, {"prestop=app", "grace=10"}, {"app.ignore-term=true", "grace=3"},
	{"app.term-delay=2s"}, {"restart=Never", "app.run-for=4s", "app.exit-code=0"},
	{"restart=OnFailure", "app.run-for=2s", "app.exit-code=0"}, {"app.crash-loop=2"}, {"deadline=20"},
	{"restart=Never", "app.run-for=3s", "app.exit-code=2"},
	{"start-command=app", "stop-command=app", "app.exec-delay=300ms"},
}

// verbs are drawn from. LoseTask is not among them: what it leaves can't be removed until the
// runtime is restarted.
var verbs = []Verb{
	Delete, Force, Image, Remove, Exit, OOM, EndSandbox, Vanish, Restart, DownRuntime, Power, CutOff, Expire,
	StepClock, Pause, Suspend, NoAnswers, NoWatches, Restore,
}

func (p Profile) withDefaults() Profile {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&p.Pods, 6)
	set(&p.Ops, 15)
	set(&p.Faults, 15)
	if p.Words == nil {
		p.Words = words
	}
	if p.Verbs == nil {
		p.Verbs = verbs
	}
	if p.Effects == nil {
		for _, s := range Streams() {
			p.Effects = append(p.Effects, s.drawn(&p)...)
		}
	}
	return p
}

// Rand is the random stream of a seed for a purpose.
func Rand(seed uint64, purpose string) *rand.Rand {
	c := Case{Seed: seed, Ops: []Op{{Verb: Verb(purpose)}}}
	return rand.New(rand.NewPCG(seed, c.Hash()))
}

// some keeps each of all with even chances, and one at least: a seed draws first what
// exists in its case at all, so that a few things meet often and not all things rarely.
func some[T any](r *rand.Rand, all []T) (out []T) {
	for _, x := range all {
		if r.IntN(2) == 0 {
			out = append(out, x)
		}
	}
	if len(out) == 0 && len(all) > 0 {
		out = append(out, all[r.IntN(len(all))])
	}
	return out
}

// Expand makes the case of a seed, without faults: those need to know what happens in it,
// see chaos.Draw.
func Expand(seed uint64, p Profile) *Case {
	p = p.withDefaults()
	r := Rand(seed, "ops")
	if p.Nodes > 0 {
		return expandCluster(seed, r, p)
	}
	c := &Case{Seed: seed, NoEvents: r.IntN(8) == 0, Standalone: r.IntN(8) == 0 && !p.CSI, Schedule: schedule(seed)}
	g := &grower{r: r, c: c, static: map[string]bool{}, words: some(r, p.Words), live: map[string]*Op{}}
	var can []Verb
	for _, v := range some(r, p.Verbs) {
		if !forms[v].api || !c.Standalone {
			can = append(can, v)
		}
	}
	pods, ops := 1+r.IntN(p.Pods), 1+r.IntN(p.Ops)
	for i := range pods {
		g.pods = append(g.pods, string(rune('a'+i)))
		g.make(g.pods[i])
	}
	for range ops {
		g.at += time.Duration(1+r.IntN(40)) * 100 * time.Millisecond
		if r.IntN(6) == 0 {
			g.at += time.Duration(r.IntN(40)) * time.Second
		}
		if len(can) == 0 || r.IntN(4) == 0 {
			g.make(g.pods[r.IntN(pods)])
			continue
		}
		g.act(can[r.IntN(len(can))])
	}
	g.press()
	g.plug()
	g.drive(p.CSI)
	if p.Private {
		g.lock()
	}
	return c
}

type grower struct {
	r    *rand.Rand
	c    *Case
	at   time.Duration
	pods []string
	// static says which pods come by a manifest: a pod stays what it is.
	static map[string]bool
	words  [][]string
	live   map[string]*Op
	// saved are the pods that were there when a backup was made, nil before.
	saved map[string]*Op
}

func (g *grower) add(o Op) {
	o.When.At = g.at
	g.c.Ops = append(g.c.Ops, o)
}

// make asks for a pod that is not there.
func (g *grower) make(name string) {
	if g.live[name] != nil {
		return
	}
	static, known := g.static[name]
	if !known {
		static = g.c.Standalone || g.r.IntN(4) == 0
		g.static[name] = static
	}
	o := Op{Verb: Create, Role: Role{Pod: name}, Args: []Arg{{"main", "app"}}}
	if static {
		o.Verb = Write
	}
	for range g.r.IntN(4) {
		for _, w := range g.words[g.r.IntN(len(g.words))] {
			key, value := cut(w)
			if o.has(key, value) {
				continue
			}
			o.Args = append(o.Args, Arg{key, value})
		}
	}
	g.live[name] = &o
	g.add(o)
}

func cut(w string) (key, value string) {
	for i := range len(w) {
		if w[i] == '=' {
			return w[:i], w[i+1:]
		}
	}
	return w, ""
}

// has reports whether a pod has a word already, or the key where there can be one only.
func (o *Op) has(key, value string) bool {
	for _, a := range o.Args {
		if a.Key == key && (a.Value == value || key != "main" && key != "init" && key != "sidecar" && key != "volume") {
			return true
		}
	}
	return false
}

// act does something to a pod that is there, or to the node.
func (g *grower) act(v Verb) {
	o := Op{Verb: v}
	wait := Arg{"for", fmt.Sprintf("%ds", 1+g.r.IntN(30))}
	switch v {
	case Restart, DownRuntime, Power, CutOff, Pause, Suspend, NoAnswers, NoWatches:
		o.Args = []Arg{wait}
	case Restore:
		g.restore(&o)
	case StepClock:
		o.Args = []Arg{{"by", []string{"-1h", "1h", "-24h", "-10s", "10s"}[g.r.IntN(5)]}}
	case Expire:
	default:
		name := g.pods[g.r.IntN(len(g.pods))]
		if g.live[name] == nil {
			g.make(name)
			return
		}
		o.Role.Pod = name
		if !g.aim(&o, g.static[name]) {
			return
		}
	}
	g.add(o)
}

// restore makes a backup if there is none, and restores it otherwise.
func (g *grower) restore(o *Op) {
	if g.saved == nil {
		o.Verb, g.saved = Backup, maps.Clone(g.live)
		return
	}
	for name := range g.live { // order-free: all of them
		if !g.static[name] {
			delete(g.live, name)
		}
	}
	for name, was := range g.saved { // order-free: all of them
		if !g.static[name] {
			g.live[name] = was
		}
	}
}

// aim gives an operation on a pod what it needs, and reports whether it can be done.
func (g *grower) aim(o *Op, static bool) bool {
	switch o.Verb {
	case Delete, Force:
		if static {
			o.Verb = Remove
		}
		delete(g.live, o.Role.Pod)
	case Remove:
		if !static {
			o.Verb = Delete
		}
		delete(g.live, o.Role.Pod)
	case Image:
		o.Role.Container = "app"
		o.Args = []Arg{{"to", fmt.Sprintf("registry.test/app:%d", 2+g.r.IntN(3))}}
		return !static
	case Exit:
		o.Role.Container = "app"
		o.Args = []Arg{{"code", fmt.Sprint(g.r.IntN(3))}}
	case OOM, Vanish:
		o.Role.Container = "app"
	default:
	}
	return true
}

// Faults draws those of a seed from the points that are given, by stream.
func Faults(seed uint64, p Profile, points map[Stream][]Fault) (out []Fault) {
	p = p.withDefaults()
	r := Rand(seed, "faults")
	effects := map[EffectKind]bool{}
	for _, e := range some(r, p.Effects) {
		effects[e] = true
	}
	var streams []Stream
	can := map[Stream][]EffectKind{}
	for _, s := range Streams() {
		for _, e := range s.drawn(&p) {
			if effects[e] {
				can[s] = append(can[s], e)
			}
		}
		if len(can[s]) > 0 && len(points[s]) > 0 {
			streams = append(streams, s)
		}
	}
	if len(streams) == 0 {
		return nil
	}
	var driven []Fault
	for _, f := range points[Host] {
		if p.CSI && (DrivenCall(f.Subject) || withinDriven(f.Subject)) {
			driven = append(driven, f)
		}
	}
	for range 1 + r.IntN(p.Faults) {
		s := streams[r.IntN(len(streams))]
		from := points[s]
		if len(driven) > 0 && len(can[Host]) > 0 && r.IntN(2) == 0 {
			s, from = Host, driven
		}
		if p.Panics && r.IntN(2) == 0 {
			if f, is := inPort(r, points); is {
				out = append(out, f)
			}
			continue
		}
		f := from[r.IntN(len(from))]
		if f.Effect.Do = can[s][r.IntN(len(can[s]))]; !s.Can(f.Subject, f.Effect.Do) {
			continue
		}
		if f.Effect.Do.TakesTime() {
			f.Effect.For = time.Duration(1+r.IntN(100)) * 100 * time.Millisecond
		}
		out = append(out, f)
	}
	return out
}

// inPort draws something that the agent's own code does in a port.
func inPort(r *rand.Rand, points map[Stream][]Fault) (f Fault, is bool) {
	s := []Stream{Call, Host, API}[r.IntN(3)]
	from := points[s]
	if len(from) == 0 {
		return f, false
	}
	f = from[r.IntN(len(from))]
	f.Effect.Do = []EffectKind{Panic, PanicAfter, Panic, PanicAfter, Allocate}[r.IntN(5)]
	return f, s.Can(f.Subject, f.Effect.Do)
}
