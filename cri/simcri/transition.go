package simcri

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Transition is one change of a sandbox or container, for Config.Observe.
type Transition struct {
	At   time.Time
	Kind observed.EventKind
	Pod  observed.PodRef
	// ID is that of the sandbox or container, Sandbox that of the container's sandbox.
	ID, Sandbox string
	// Container is the container's name, empty for a sandbox.
	Container string
	Attempt   uint32
	// Image is what the container was made with, as the caller named it.
	Image string
	// Devices are what it was made with for its devices; nil for none.
	Devices *devices.Given
	// ExitCode and Cause are for the end of a container.
	ExitCode int32
	Cause    Cause
}

// Cause is why a container ended.
type Cause uint8

// The causes.
const (
	NotEnded     Cause = iota
	ByItself           // its program ended
	BySignal           // its program ended after the stop signal of StopContainer
	ByKill             // StopContainer killed it, as its grace was over or was none
	WithSandbox        // it was killed when its sandbox was stopped or removed
	WithRemoval        // it was killed when it was removed itself
	FromOutside        // EndContainer, Vanish
	NeverStarted       // its start failed
	Lost               // LoseTask
)

var causeNames = [...]string{
	"not ended", "by itself", "by signal", "by kill", "with its sandbox", "with its removal", "from outside",
	"never started", "lost",
}

func (c Cause) String() string { return causeNames[c] }

// show tells Config.Observe of a change.
func (r *Runtime) show(t Transition) {
	if r.cfg.Observe != nil {
		t.At = r.cfg.Clock.Now()
		r.cfg.Observe(t)
	}
}

// changed tells everybody of a change of a container.
func (r *Runtime) changed(kind observed.EventKind, c *container, ref observed.PodRef) {
	r.show(Transition{
		Kind: kind, Pod: ref, ID: c.id, Sandbox: c.sandbox.id, Container: c.spec.Name, Attempt: c.attempt,
		Image: c.spec.Image, Devices: c.devices, ExitCode: c.exitCode, Cause: c.cause,
	})
	r.emit(kind, c.id, ref)
}

// sandboxChanged tells everybody of a change of a sandbox.
func (r *Runtime) sandboxChanged(kind observed.EventKind, s *sandbox, ref observed.PodRef) {
	r.show(Transition{Kind: kind, Pod: ref, ID: s.id, Sandbox: s.id, Attempt: s.attempt})
	r.emit(kind, s.id, ref)
}
