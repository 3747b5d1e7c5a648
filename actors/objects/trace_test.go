package objects_test

import (
	"errors"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podkey"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/objects"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// ownTrace is the trace of what the objects actor receives, and of nothing else.
type ownTrace struct{ *kernel.HashTracer }

func (t ownTrace) Deliver(at time.Time, path, name string, msg any) {
	if path == "objects" {
		t.HashTracer.Deliver(at, path, name, msg)
	}
}

func (ownTrace) Effect(time.Time, string, kernel.EffectPhase, kernel.EffectInfo) {}

// TestTrace: two runs have the same trace if the apiserver says the same, and another if it says anything else.
func TestTrace(t *testing.T) {
	noRoute := errors.New("no route to host")
	object := func(c port.APIChange) func(r *rig) { return func(r *rig) { r.All[0].Change(c) } }
	service := func(c port.APIChange) func(r *rig) { return func(r *rig) { r.All[1].Change(c) } }
	read := func(version string, err error) func(r *rig) {
		return func(r *rig) {
			r.has["settings"] = made(version)
			r.calls.Answer(err, getBegun)
		}
	}
	issue := func(life time.Duration, err error) func(r *rig) {
		return func(r *rig) {
			r.life = life
			r.calls.Answer(err, ask)
		}
	}
	lies := func(c *podkey.Issued, err error) func(r *rig) {
		return func(r *rig) {
			r.written = c
			r.calls.Answer(err, readKey)
		}
	}
	until := func(hours time.Duration) *podkey.Issued {
		return &podkey.Issued{Chain: []byte(chainOf("zero")), Expires: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Add(hours * time.Hour)}
	}
	asked := func(number int, err error) func(r *rig) {
		return func(r *rig) {
			r.requests = number // and this decides on the name of the next
			r.calls.Answer(nil, readKey, getAccount, getNode, newKey)
			r.calls.Answer(err, created(1))
		}
	}
	for name, c := range map[string]struct {
		detection objects.Detection
		one, two  func(r *rig)
	}{
		"a list":          {objects.Watch, object(listed(made("1"))), object(listed(made("2")))},
		"a change":        {objects.Watch, object(port.APISet{Object: made("1")}), object(port.APISet{Object: made("2")})},
		"a deletion":      {objects.Watch, object(port.APISet{Object: made("1")}), object(port.APIDeleted{Object: made("1")})},
		"a broken watch":  {objects.Watch, object(port.APIBroken{Err: errAway}), object(port.APIBroken{Err: noRoute})},
		"services":        {objects.Watch, service(listed()), service(port.APIBroken{Err: errAway})},
		"a read":          {objects.Cache, read("1", nil), read("2", nil)},
		"a failed read":   {objects.Cache, read("1", errAway), read("1", noRoute)},
		"a token":         {objects.Cache, issue(time.Hour, nil), issue(2*time.Hour, nil)},
		"a refused token": {objects.Cache, issue(0, errAway), issue(0, noRoute)},
		"no key":          {objects.Cache, lies(nil, errAway), lies(nil, noRoute)},
		"a written key":   {objects.Cache, lies(until(1), nil), lies(until(2), nil)},
		"a request":       {objects.Cache, asked(1, nil), asked(2, nil)},
		"no request":      {objects.Cache, asked(1, errAway), asked(1, noRoute)},
	} {
		trace := func(say func(r *rig)) uint64 {
			own := ownTrace{kernel.NewHashTracer()}
			r := rigOn(actortest.New(t, func(c *kernel.Config) { c.Tracer = own }), withServices,
				func(d *objects.Deps) { d.Detection = c.detection; withCertificates(d.API.(*rig))(d) })
			r.has["default"], r.has["n1"] = account, node
			r.actor.Tell(r.need("web", certificate(mesh), configMap("settings"), token("", 600)))
			r.Settle()
			say(r)
			r.Settle()
			return own.Sum()
		}
		one := trace(c.one)
		if trace(c.one) != one {
			t.Errorf("%s: the same has two traces", name)
		}
		if trace(c.two) == one {
			t.Errorf("%s: another one has the same trace", name)
		}
	}
}
