package invariants

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// as does something to another pod that runs.
func as(uid string, steps ...step) step {
	return func(r *rig) {
		was := r.ref
		r.ref.UID, r.ref.Name = was.UID+"b", uid
		for _, s := range steps {
			s(r)
		}
		r.ref = was
	}
}

func measures(short eviction.Conditions) step { return func(r *rig) { r.Measured(short) } }

func evicts(of v1.ResourceName, enough bool) step {
	return func(r *rig) {
		r.Evicted(&Eviction{UID: r.ref.UID, For: of, Grace: time.Second, ImagesEnough: enough})
	}
}

func pressure(is bool) step {
	return func(r *rig) {
		status := v1.ConditionFalse
		if is {
			status = v1.ConditionTrue
		}
		r.NodeShown(&v1.Node{Status: v1.NodeStatus{Conditions: []v1.NodeCondition{
			{Type: v1.NodeReady, Status: v1.ConditionTrue}, {Type: v1.NodeMemoryPressure, Status: status},
		}}})
	}
}

// goes ends all containers.
func goes(r *rig) {
	crash(0)(r)
	r.end("proxy", 0, ended, 1, simcri.ByItself)
}

func over(is bool) step { return func(r *rig) { r.Over(r.ref.UID, is) } }

// TestPressure: what the rules about a node that protects itself hold against it.
func TestPressure(t *testing.T) {
	const disk = v1.ResourceEphemeralStorage
	fault := func(r *rig) { r.Troubled("", 0) }
	short, enough := measures(eviction.Conditions{Memory: true}), measures(eviction.Conditions{})
	second := func(s step) step { return as("other", func(r *rig) { r.up() }, s) }
	freed := func(r *rig) { r.Freed() }
	for name, c := range map[string]struct {
		steps []step
		want  string // the rule; empty for none
	}{
		"images were given up":           {[]step{evicts(disk, false)}, ""},
		"images were enough":             {[]step{evicts(disk, true)}, "I28"},
		"and a call had gone wrong":      {[]step{fault, evicts(disk, true)}, ""},
		"one after another":              {[]step{evicts("memory", false), goes, enough, second(evicts("memory", false))}, ""},
		"told twice":                     {[]step{evicts("memory", false), evicts("memory", false)}, ""},
		"two after one measurement":      {[]step{evicts("memory", false), goes, second(evicts("memory", false))}, "I29"},
		"before the first has ended":     {[]step{evicts("memory", false), enough, second(evicts("memory", false))}, "I29"},
		"for another resource":           {[]step{evicts("memory", false), enough, second(evicts(disk, false))}, ""},
		"for inodes, and a limit":        {[]step{evicts("", false), enough, second(evicts(eviction.Inodes, false))}, "I29"},
		"two by their limits":            {[]step{evicts("", false), second(evicts("", false))}, ""},
		"the first took too long":        {[]step{evicts("memory", false), pass(31 * time.Second), enough, second(evicts("memory", false))}, ""},
		"another agent evicts":           {[]step{evicts("memory", false), pass(time.Second), begins, enough, second(evicts("memory", false))}, ""},
		"it stays for a minute":          {[]step{short, pressure(true), pass(59 * time.Second), pressure(true), pass(time.Second), pressure(false)}, ""},
		"it goes too soon":               {[]step{short, pressure(true), pass(59 * time.Second), pressure(false)}, "I30"},
		"a threshold was met again":      {[]step{short, pressure(true), pass(50 * time.Second), short, pass(50 * time.Second), pressure(false)}, "I30"},
		"another agent does not know":    {[]step{short, pressure(true), pass(time.Second), begins, pass(time.Second), pressure(false)}, ""},
		"the apiserver wrote late":       {[]step{short, pressure(true), func(r *rig) { r.Asked(simapi.Call{}, simapi.Fault{WorkLate: time.Second}) }, pressure(false)}, ""},
		"within its limits again":        {[]step{over(true), pass(10 * time.Second), over(false), pass(time.Minute), enough}, ""},
		"over its limits, and evicted":   {[]step{over(true), pass(10 * time.Second), evicts("", false), pass(time.Minute), enough}, ""},
		"over its limits for a minute":   {[]step{over(true), pass(time.Minute), enough}, "I31"},
		"something was freed":            {[]step{pass(time.Minute), freed, over(true), pass(time.Minute), enough}, ""},
		"something was freed for a look": {[]step{pass(time.Minute), freed, over(true), pass(3 * time.Minute), enough}, "I31"},
		"it has ended":                   {[]step{over(true), goes, pass(time.Minute), enough}, ""},
	} {
		r := newRig()
		r.Timely()
		r.now = r.now.Add(time.Hour)
		r.up()
		r.Protects(time.Minute)
		r.now = r.now.Add(time.Hour)
		for _, s := range c.steps {
			s(r)
		}
		var got []string
		for _, v := range r.found {
			got = append(got, v.ID)
		}
		if want := slices.DeleteFunc([]string{c.want}, func(s string) bool { return s == "" }); !slices.Equal(slices.Compact(got), want) {
			t.Errorf("%s: %v, want %v", name, r.found, want)
		}
	}
}

// TestEvictedInItsGrace: an eviction shortens the grace period.
func TestEvictedInItsGrace(t *testing.T) {
	r := newRig()
	r.Timely()
	r.up()
	r.now = r.now.Add(time.Hour)
	r.Evicted(&Eviction{UID: r.ref.UID, For: "memory", Grace: time.Second})
	r.Called(r.stop("app", time.Second), simcri.Fault{})
	r.Evicted(&Eviction{UID: r.ref.UID, For: "memory"})
	r.Called(r.stop("app", 0), simcri.Fault{})
	check.None(t, r.found, "it")
}
