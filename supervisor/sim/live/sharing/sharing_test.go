package sharing

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		view View
		want Plan
	}{
		{"alone", View{Me: "a", Holders: []string{"", "", ""}}, Plan{Claim: []int{0, 1, 2}}},
		{"content", View{Me: "a", Members: []string{"a", "b"}, Holders: []string{"a", "b", "a"}}, Plan{}},
		{"one joins", View{Me: "a", Members: []string{"a", "b"}, Holders: []string{"a", "a", "a", "a"}}, Plan{Release: []int{2, 3}}},
		{"who joins waits", View{Me: "b", Members: []string{"a", "b"}, Holders: []string{"a", "a", "a", "a"}}, Plan{}},
		{"who joins takes what is free", View{Me: "b", Members: []string{"a", "b"}, Holders: []string{"a", "a", "", ""}}, Plan{Claim: []int{2, 3}}},
		{"what the dead held is free", View{Me: "a", Members: []string{"a"}, Holders: []string{"a", "b", "b"}}, Plan{Claim: []int{1, 2}}},
		{"two divide what is free", View{Me: "c", Members: []string{"a", "c"}, Holders: []string{"a", "b", "b", "b", "b", "c"}}, Plan{Claim: []int{3, 4}}},
		{"the odd one stays where it is", View{Me: "b", Members: []string{"a", "b"}, Holders: []string{"a", "b", "b"}}, Plan{}},
		{"leaving", View{Me: "a", Leaving: true, Members: []string{"a", "b"}, Holders: []string{"a", "b", "", "a"}}, Plan{Release: []int{0, 3}}},
		{"what it stopped is begun again", View{Me: "a", Holders: []string{"a", "a", ""}, Stopped: []int{1}}, Plan{Claim: []int{1, 2}}},
		{"or given back", View{Me: "a", Members: []string{"b"}, Holders: []string{"a", "a"}, Stopped: []int{0}}, Plan{Release: []int{0}}},
		{"half of it", View{Me: "a", Members: []string{"b"}, Holders: []string{"a", "a"}, Stopped: []int{0, 1}}, Plan{Claim: []int{0}, Release: []int{1}}},
		{"more members than slots", View{Me: "c", Members: []string{"a", "b"}, Holders: []string{"a", "b"}}, Plan{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Decide(c.view); !slices.Equal(got.Claim, c.want.Claim) || !slices.Equal(got.Release, c.want.Release) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 500).Draw(t, "nodes")
		slots := rapid.IntRange(1, nodes).Draw(t, "slots")
		next := 0
		for s := range slots {
			first, end := Nodes(s, slots, nodes)
			if first != next || end <= first || end-first > nodes/slots+1 {
				t.Fatalf("slot %d has %d to %d after %d", s, first, end, next)
			}
			next = end
		}
		check.Fatal(t, check.Is(next, nodes, "the slots have %d nodes of %d", next, nodes))
	})
}

// process is one of several that share slots, as its shell would run it.
type process struct {
	id      string
	alive   bool
	leaving bool
	renewed time.Time
	fenced  bool
	running map[int]bool
	// holders, versions and sights are what it was told last.
	holders  []string
	versions []int
	sights   map[string]Sight
}

const duration = 15 * time.Second

// cluster is the world of the property: one store, processes with late views.
type cluster struct {
	t       *rapid.T
	now     time.Time
	leases  map[string]string // version by process
	holders []string
	// versions are those of the slots' leases.
	versions []int
	version  int
	all      []*process
}

func (c *cluster) start() {
	p := &process{id: fmt.Sprintf("p%02d", len(c.all)), alive: true, running: map[int]bool{}, sights: map[string]Sight{}}
	c.all = append(c.all, p)
	c.renew(p)
	c.look(p)
}

func (c *cluster) renew(p *process) {
	c.version++
	c.leases[p.id] = fmt.Sprint(c.version)
	p.renewed, p.fenced = c.now, false
}

// look brings p's view up to date.
func (c *cluster) look(p *process) {
	p.holders, p.versions = slices.Clone(c.holders), slices.Clone(c.versions)
	for id, version := range c.leases {
		p.sights[id] = p.sights[id].See(version, duration, c.now).Unchanged(c.now)
	}
	for id := range p.sights {
		if _, there := c.leases[id]; !there {
			delete(p.sights, id)
		}
	}
}

// fence is what each process' own clock does, whatever else happens.
func (c *cluster) fence() {
	for _, p := range c.all {
		if p.alive && !c.now.Before(Fence(p.renewed, duration)) {
			p.fenced = true
			clear(p.running)
		}
	}
}

func (c *cluster) act(p *process) {
	if p.fenced && !p.leaving {
		return
	}
	v := View{Me: p.id, Leaving: p.leaving, Holders: slices.Clone(p.holders)}
	for id, s := range p.sights {
		if id == p.id || !s.Gone() {
			v.Members = append(v.Members, id)
		}
	}
	for s, h := range v.Holders {
		if h == p.id && !p.running[s] && !p.leaving {
			v.Stopped = append(v.Stopped, s)
		}
	}
	plan := Decide(v)
	for _, s := range plan.Release {
		delete(p.running, s)
		if c.holders[s] == p.id {
			c.hold(p, s, "")
		}
		p.holders[s] = ""
	}
	for _, s := range plan.Claim {
		if c.versions[s] == p.versions[s] { // the write has a precondition
			c.hold(p, s, p.id)
			p.running[s] = true
		}
	}
	if p.leaving {
		p.alive = false
		clear(p.running)
		delete(c.leases, p.id)
	}
}

// hold writes the lease of slot s for p.
func (c *cluster) hold(p *process, s int, holder string) {
	c.versions[s]++
	c.holders[s], p.holders[s], p.versions[s] = holder, holder, c.versions[s]
}

func (c *cluster) check() {
	by := map[int]string{}
	for _, p := range c.all {
		if !p.alive {
			continue
		}
		for s := range p.running {
			if other := by[s]; other != "" {
				c.t.Fatalf("at %v slot %d is run by %s and %s", c.now.Sub(time.Unix(0, 0)), s, other, p.id)
			}
			by[s] = p.id
		}
	}
}

func (c *cluster) living() (all []*process) {
	for _, p := range c.all {
		if p.alive {
			all = append(all, p)
		}
	}
	return all
}

// Whatever happens, no slot is run twice; and once nothing happens any more, all
// are run, and evenly.
func TestSharing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 12).Draw(t, "slots")
		c := &cluster{t: t, now: time.Unix(0, 0), leases: map[string]string{}, holders: make([]string, slots), versions: make([]int, slots)}
		c.start()
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			live := c.living()
			var p *process
			if len(live) > 0 {
				p = live[rapid.IntRange(0, len(live)-1).Draw(t, "who")]
			}
			switch what := rapid.SampledFrom([]string{"start", "kill", "leave", "renew", "look", "act", "act", "look", "renew", "time", "time"}).Draw(t, "what"); {
			case what == "start" && len(c.all) < 6:
				c.start()
			case what == "time":
				c.now = c.now.Add(time.Duration(rapid.IntRange(1, 8000).Draw(t, "ms")) * time.Millisecond)
			case p == nil:
			case what == "kill":
				p.alive = false
			case what == "leave":
				p.leaving = true
			case what == "renew" && !p.leaving:
				c.renew(p)
			case what == "look":
				c.look(p)
			case what == "act":
				c.act(p)
			}
			c.fence()
			c.check()
		}
		c.start() // there is one at least
		for range 40 {
			c.now = c.now.Add(time.Second)
			for _, p := range c.living() {
				c.renew(p)
				c.look(p)
				c.act(p)
				c.check()
			}
		}
		counts := map[string]int{}
		for s, h := range c.holders {
			i := slices.IndexFunc(c.living(), func(p *process) bool { return p.id == h && p.running[s] })
			if i < 0 {
				t.Fatalf("slot %d is held by %q and run by nobody", s, h)
			}
			counts[h]++
		}
		least, most := len(c.holders), 0
		for _, p := range c.living() {
			least, most = min(least, counts[p.id]), max(most, counts[p.id])
		}
		if most-least > 1 {
			t.Fatalf("not even: %v", counts)
		}
		before := slices.Clone(c.holders)
		for _, p := range c.living() {
			c.look(p)
			c.act(p)
		}
		if !reflect.DeepEqual(before, c.holders) {
			t.Fatal("it does not settle")
		}
	})
}
