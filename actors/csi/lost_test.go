package csi_test

import (
	"testing"
	"time"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
)

// TestHeld: a staged volume that may be published where nothing can be read is not unstaged, and people are told why. A pod
// that uses it gets it.
func TestHeld(t *testing.T) {
	key := decide.Key{Driver: driver, Handle: "v"}
	r := newRig(t, func(r *rig) { r.found = []decide.Found{{Key: key, Held: "/x is mounted"}} })
	r.register(notAttached)
	r.calls.Answer(nil, "info "+driver)
	r.Forget()
	r.Advance(time.Minute + 10*time.Second)
	r.Keep("driver: un")
	r.WantByListener("it stays")
	r.events.Want("named", "n: FailedUnMount: volume v of CSI driver d.example.com stays mounted: /x is mounted")
	r.use(spec("a", "v"))
	r.calls.Answer(nil, "stage v", "publish v for a")
	r.release("a")
	r.calls.Answer(nil, "unpublish v for a")
	r.Advance(time.Minute)
	r.Keep("driver: publish", "driver: un", "volumes: a released")
	r.WantByListener("it stays", "driver: publish v for a", "driver: unpublish v for a", "volumes: a released")
}

// TestLost: a staged volume whose notes can't be read is found by the hash of its handle, among what the Node has and among
// what pods use. The Node is not told of what is in use before.
func TestLost(t *testing.T) {
	key := decide.Key{Driver: driver, Handle: "v"}
	for name, c := range map[string]struct {
		inUse, attached []string
		uses            bool
		want            []string
	}{
		"in use":   {inUse: []string{"w", "v"}, want: []string{"driver: unstage v"}},
		"attached": {attached: []string{"w", "v"}, want: []string{"driver: unstage v"}},
		"used":     {uses: true},
		"unknown":  {inUse: []string{"w"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.lost = []decide.Lost{
					{Driver: driver, Dir: key.Dir(), Why: "no notes"}, {Driver: driver, Dir: "of another", Why: "no notes"},
				}
			})
			if c.uses {
				r.use(spec("a", "v"))
			}
			r.register(notAttached)
			r.Keep("node: in use", "driver: unstage", "driver: stage")
			if c.uses {
				r.WantByListener("staged again", "driver: stage v")
			} else {
				r.WantByListener("not yet")
			}
			r.nodeSays(c.inUse, c.attached)
			r.Keep("driver: unstage", "driver: stage")
			r.WantByListener("found", c.want...)
		})
	}
}
