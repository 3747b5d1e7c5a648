package contract

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// CSIDriver is what the driver of a subject can do.
type CSIDriver struct {
	// Stages, Expands and Measures: it has these calls.
	Stages, Expands, Measures bool
	// Info is what it says of the node.
	Info csi.Info
	// Usage is what it says of each volume, if it measures them.
	Usage csi.Usage
}

// CSIFault is what goes wrong with a call of a driver.
type CSIFault uint8

// Faults.
const (
	// Well ends a fault.
	Well CSIFault = iota
	// Final: the driver refuses it, and it had no effect.
	Final
	// Unclear: the driver fails, and it may have had one.
	Unclear
	// Hang: it never answers.
	Hang
)

// CSISubject is one implementation of port.CSI with one driver, of which nothing is registered yet.
type CSISubject struct {
	Passing
	CSI port.CSI
	// Name is that of the driver.
	Name string
	// Start has the driver register. Stop ends it, and takes its sockets away.
	Start, Stop func()
	// Fault has all calls of a method go wrong from now on.
	Fault func(method string, f CSIFault)
	// Staging reports whether the driver was ever asked to stage a volume.
	Staging func() bool
}

// CSI runs the suite for port.CSI. open is called once per test.
func CSI(t *testing.T, open func(*testing.T, CSIDriver) CSISubject) {
	all := CSIDriver{
		Stages: true, Expands: true, Measures: true,
		Info: csi.Info{NodeID: "n-1", MaxVolumes: 7, Topology: map[string]string{"zone": "a"}},
		Usage: csi.Usage{
			Bytes: csi.Amount{Total: 100, Available: 60, Used: 40}, Inodes: csi.Amount{Total: 10, Available: 9, Used: 1},
		},
	}
	for name, of := range map[string]struct {
		driver CSIDriver
		test   func(*csiSuite)
	}{
		"ComesAndGoes": {all, (*csiSuite).comesAndGoes}, "OneVolume": {all, (*csiSuite).oneVolume},
		"PublishesOnly": {CSIDriver{Info: csi.Info{NodeID: "n-1"}}, (*csiSuite).publishesOnly},
		"Inline":        {all, (*csiSuite).inline}, "Refused": {all, (*csiSuite).refused},
		"Unclear": {all, (*csiSuite).unclear}, "Undone": {all, (*csiSuite).undone}, "Hangs": {all, (*csiSuite).hangs},
		"Gone": {all, (*csiSuite).gone}, "Expands": {all, (*csiSuite).expands}, "Measures": {all, (*csiSuite).measures},
		"ExpandsNot":      {CSIDriver{Stages: true, Info: csi.Info{NodeID: "n-1"}}, (*csiSuite).expandsNot},
		"ExpandsUnstaged": {CSIDriver{Expands: true, Info: csi.Info{NodeID: "n-1"}}, (*csiSuite).expandsUnstaged},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, of.driver)
			c := &csiSuite{
				suite: s.suite(t), CSISubject: s, driver: of.driver, of: port.CSIDriver{Name: s.Name},
				key: csi.Key{Driver: s.Name, Handle: "volume-1"},
			}
			s.Start()
			c.eventuallyThere()
			of.test(c)
		})
	}
}

type csiSuite struct {
	*suite
	CSISubject
	driver CSIDriver
	of     port.CSIDriver
	key    csi.Key
}

// eventuallyThere waits until the driver answers, which is when it has registered.
func (c *csiSuite) eventuallyThere() {
	c.Helper()
	c.until("the driver answers", func() bool {
		_, err := c.info().result()
		return err == nil
	})
}

func (c *csiSuite) info() *pending[csi.Info] {
	return begin(c.suite, "NodeInfo", func(done func(csi.Info, error)) {
		c.CSI.NodeInfo(context.Background(), c.of, done)
	})
}

func (c *csiSuite) stage(ctx context.Context, fresh bool) *pending[struct{}] {
	return beginErr(c.suite, "StageVolume", func(done func(error)) {
		c.CSI.StageVolume(ctx, c.of, csi.Stage{Key: c.key, Name: "pv", Access: "ReadWriteMany", Fresh: fresh}, done)
	})
}

func (c *csiSuite) publish(pod types.UID, inline, fresh bool) *pending[string] {
	return begin(c.suite, "PublishVolume", func(done func(string, error)) {
		c.CSI.PublishVolume(context.Background(), c.of, csi.Publish{
			Key: c.key, Target: csi.Target{Pod: pod, Name: "pv"}, Volume: "data", Access: "ReadWriteMany", Node: "n",
			Inline: inline, Fresh: fresh,
		}, nil, done)
	})
}

func (c *csiSuite) unpublish(pod types.UID, inline bool) *pending[struct{}] {
	return beginErr(c.suite, "UnpublishVolume", func(done func(error)) {
		of := csi.Found{Key: c.key, Target: csi.Target{Pod: pod, Name: "pv"}, Inline: inline}
		c.CSI.UnpublishVolume(context.Background(), c.of, of, done)
	})
}

func (c *csiSuite) unstage() *pending[struct{}] {
	return beginErr(c.suite, "UnstageVolume", func(done func(error)) {
		c.CSI.UnstageVolume(context.Background(), c.of, csi.Found{Key: c.key, Target: csi.Target{Name: "pv"}}, done)
	})
}

func (c *csiSuite) expand(pod types.UID) *pending[struct{}] {
	return beginErr(c.suite, "ExpandVolume", func(done func(error)) {
		r := csi.Expand{Key: c.key, Pod: pod, Name: "pv", Size: 2 << 30, Access: "ReadWriteMany"}
		c.CSI.ExpandVolume(context.Background(), c.of, r, done)
	})
}

func (c *csiSuite) measure(pod types.UID) *pending[csi.Usage] {
	return begin(c.suite, "VolumeStats", func(done func(csi.Usage, error)) {
		r := csi.Measure{Key: c.key, Target: csi.Target{Pod: pod, Name: "pv"}, Volumes: []string{"data"}}
		c.CSI.VolumeStats(context.Background(), c.of, r, done)
	})
}

// outcome fails the test unless a call failed, and says so of what it may have done.
func outcome[T any](p *pending[T], want csi.Outcome) {
	p.s.Helper()
	_, err := p.result()
	if got := port.CSIOutcome(err); err == nil || got != want {
		p.s.Errorf("%s: %v, which counts as outcome %d; want %d", p.what, err, got, want)
	}
}

// found fails the test unless an agent that begins now finds exactly these: a staging is "staged", a publication the
// UID of its pod.
func (c *csiSuite) found(when string, want ...string) {
	c.Helper()
	got := begin(c.suite, "FoundVolumes", func(done func([]string, error)) {
		c.CSI.FoundVolumes(context.Background(), func(all []csi.Found, lost []csi.Lost, bad []string, err error) {
			var out []string
			for _, f := range all {
				if f.Key != c.key {
					out = append(out, f.Key.String())
				}
				switch {
				case f.Target.Pod == "":
					out = append(out, "staged")
				case f.Inline:
					out = append(out, "inline "+string(f.Target.Pod))
				default:
					out = append(out, string(f.Target.Pod))
				}
			}
			for _, l := range lost {
				out = append(out, "lost "+l.Why)
			}
			done(append(out, bad...), err)
		})
	}).noError()
	slices.Sort(got)
	slices.Sort(want)
	check.Same(c, got, want, "%s: found", when)
}

// comesAndGoes: who listens is told of drivers that are there, that go, and that come back.
func (c *csiSuite) comesAndGoes() {
	if got := c.info().noError(); fmt.Sprint(got) != fmt.Sprint(c.driver.Info) {
		c.Errorf("NodeInfo: %+v, want %+v", got, c.driver.Info)
	}
	ctx, cancel := c.context()
	events := make(chan port.CSIDriver, 10)
	ended := beginErr(c.suite, "Drivers", func(done func(error)) {
		c.CSI.Drivers(ctx, func(d port.CSIDriver) { events <- d }, done)
	})
	next := func(what string, gone bool) {
		c.Helper()
		if d := eventually(c.suite, what, events); d.Name != c.Name || d.Gone != gone {
			c.Errorf("%s: %+v", what, d)
		}
	}
	next("there before", false)
	c.Stop()
	next("stopped", true)
	c.Start()
	next("back", false)
	c.eventuallyThere()
	cancel()
	ended.kind(port.Canceled)
}

// oneVolume: each call may be made again, also an undo of what is not there.
func (c *csiSuite) oneVolume() {
	c.found("at first")
	for i := range 2 {
		c.stage(context.Background(), i == 0).noError()
		c.found("staged", "staged")
	}
	path := c.publish("a", false, true).noError()
	if again := c.publish("a", false, false).noError(); path == "" || again != path {
		c.Errorf("published at %q, and then at %q", path, again)
	}
	if other := c.publish("b", false, true).noError(); other == path {
		c.Errorf("published at %q for two pods", other)
	}
	c.found("published", "staged", "a", "b")
	for range 2 {
		c.unpublish("a", false).noError()
		c.found("unpublished for a", "staged", "b")
	}
	c.unpublish("b", false).noError()
	for range 2 {
		c.unstage().noError()
		c.found("unstaged")
	}
	c.stage(context.Background(), true).noError()
	c.publish("a", false, true).noError()
	c.found("again", "staged", "a")
}

// publishesOnly: a driver without calls to stage volumes is not asked to, and nothing is noted.
func (c *csiSuite) publishesOnly() {
	c.stage(context.Background(), true).noError()
	c.found("nothing is staged")
	c.publish("a", false, true).noError()
	c.found("published", "a")
	c.unpublish("a", false).noError()
	c.unstage().noError()
	c.found("at the end")
}

// inline: a volume in the spec of a pod is not staged.
func (c *csiSuite) inline() {
	c.publish("a", true, true).noError()
	c.found("published", "inline a")
	c.unpublish("a", true).noError()
	c.found("unpublished")
}

// refused: the first call that the driver has finally refused leaves nothing, a later one what was there.
func (c *csiSuite) refused() {
	c.Fault("NodeStageVolume", Final)
	outcome(c.stage(context.Background(), true), csi.Refused)
	c.found("stage refused")
	c.Fault("NodeStageVolume", Well)
	c.stage(context.Background(), true).noError()
	c.Fault("NodeStageVolume", Final)
	outcome(c.stage(context.Background(), false), csi.Refused)
	c.found("stage refused the second time", "staged")
	c.Fault("NodePublishVolume", Final)
	outcome(c.publish("a", false, true), csi.Refused)
	c.found("publish refused", "staged")
	c.Fault("NodePublishVolume", Well)
	c.publish("a", false, true).noError()
	c.Fault("NodePublishVolume", Final)
	outcome(c.publish("a", false, false), csi.Refused)
	c.found("publish refused the second time", "staged", "a")
	c.Fault("NodeGetInfo", Final)
	outcome(c.info(), csi.Refused)
}

// unclear: what may have worked is found, and can be undone.
func (c *csiSuite) unclear() {
	c.Fault("NodeStageVolume", Unclear)
	outcome(c.stage(context.Background(), true), csi.Unsure)
	c.found("stage unclear", "staged")
	c.Fault("NodeStageVolume", Well)
	c.stage(context.Background(), false).noError()
	c.Fault("NodePublishVolume", Unclear)
	outcome(c.publish("a", false, true), csi.Unsure)
	c.found("publish unclear", "staged", "a")
	c.unpublish("a", false).noError()
	c.unstage().noError()
	c.found("undone")
}

// undone: an undo that fails, in whatever way, leaves what is found.
func (c *csiSuite) undone() {
	c.stage(context.Background(), true).noError()
	c.publish("a", false, true).noError()
	for f, want := range map[CSIFault]csi.Outcome{Final: csi.Refused, Unclear: csi.Unsure} {
		c.Fault("NodeUnpublishVolume", f)
		outcome(c.unpublish("a", false), want)
		c.found("unpublish failed", "staged", "a")
	}
	c.Fault("NodeUnpublishVolume", Well)
	c.unpublish("a", false).noError()
	for f, want := range map[CSIFault]csi.Outcome{Final: csi.Refused, Unclear: csi.Unsure} {
		c.Fault("NodeUnstageVolume", f)
		outcome(c.unstage(), want)
		c.found("unstage failed", "staged")
	}
	c.Fault("NodeUnstageVolume", Well)
	c.unstage().noError()
	c.found("at the end")
}

// hangs: a call that hangs ends with its context, may have worked, and holds up no other call.
func (c *csiSuite) hangs() {
	c.Fault("NodeStageVolume", Hang)
	ctx, cancel := c.context()
	p := c.stage(ctx, true)
	c.until("the driver is asked", c.Staging)
	c.info().noError()
	cancel()
	outcome(p, csi.Unsure)
	c.Fault("NodeStageVolume", Well)
	c.stage(context.Background(), false).noError()
	c.unstage().noError()
	c.found("at the end")
}

// gone: a driver that is not there was asked for nothing, and leaves no trace.
func (c *csiSuite) gone() {
	c.Stop()
	c.until("the driver is gone", func() bool {
		_, err := c.info().result()
		return port.KindOf(err) == port.NotCalled
	})
	c.stage(context.Background(), true).kind(port.NotCalled)
	c.publish("a", false, true).kind(port.NotCalled)
	c.unpublish("a", false).kind(port.NotCalled)
	c.unstage().kind(port.NotCalled)
	c.expand("a").kind(port.NotCalled)
	c.measure("a").kind(port.NotCalled)
	c.found("nothing was asked for")
	c.Start()
	c.eventuallyThere()
	c.stage(context.Background(), true).noError()
	c.found("back", "staged")
}

func (c *csiSuite) expands() {
	c.stage(context.Background(), true).noError()
	c.publish("a", false, true).noError()
	c.expand("a").noError()
	c.expand("a").noError()
	c.Fault("NodeExpandVolume", Unclear)
	outcome(c.expand("a"), csi.Unsure)
}

func (c *csiSuite) expandsNot() {
	c.stage(context.Background(), true).noError()
	c.publish("a", false, true).noError()
	c.expand("a").kind(port.Unsupported)
}

// expandsUnstaged: a driver that does not stage volumes expands them, too.
func (c *csiSuite) expandsUnstaged() {
	c.publish("a", false, true).noError()
	c.expand("a").noError()
}

func (c *csiSuite) measures() {
	c.stage(context.Background(), true).noError()
	c.publish("a", false, true).noError()
	check.Equal(c, c.measure("a").noError(), c.driver.Usage, "VolumeStats")
	c.Fault("NodeGetVolumeStats", Unclear)
	outcome(c.measure("a"), csi.Unsure)
}
