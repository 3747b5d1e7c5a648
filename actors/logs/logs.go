// Package logs is the actor that rotates container logs (containerLogMaxSize and
// related fields of KubeletConfiguration).
//
//	logs ──Running──► podview       each interval: what runs
//	logs ──LogSizes──► host         how big its logs are
//	logs ──LookAtLog, StepLog──► host, ReopenContainerLog──► runtime
//
// While no log is too big, an interval costs one request to podview and one file check per
// container. A log that is too big again before its older file is compressed is rotated first: programs may write
// faster than a machine can compress. decide/containerlogs decides each step of a rotation from the files on the
// disk, so the actor keeps no state. A new incarnation checks all rotated logs once and
// completes interrupted rotations.
package logs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerlogs"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Pool bounds the logs that are rotated at once (containerLogMaxWorkers).
const Pool = "logs"

// Message is what the logs actor understands.
//
//sumtype:decl
type Message interface{ isLogsMessage() }

// look is this actor's own timer.
type look struct{}

// rotated lists the logs that were rotated before this incarnation began.
type rotated struct {
	id   kernel.EffectID
	logs []port.LogRef
	err  error
}

// running is the answer of pods. Lost: the next look comes. Late or twice: a container that has
// ended meanwhile is detected.
type running struct{ pods []*v1.Pod }

// sized has the log sizes of the running containers. Late: ignored.
type sized struct {
	id    kernel.EffectID
	runs  []container
	sizes []int64
	err   error
}

// looked is the state of one log on the disk. Late, as the next: its round is over.
type looked struct {
	id  kernel.EffectID
	ref port.LogRef
	log containerlogs.Log
	err error
}

// stepped is the result of one step.
type stepped struct {
	id   kernel.EffectID
	ref  port.LogRef
	step containerlogs.Step
	err  error
}

func (look) isLogsMessage()    {}
func (rotated) isLogsMessage() {}
func (running) isLogsMessage() {}
func (sized) isLogsMessage()   {}
func (looked) isLogsMessage()  {}
func (stepped) isLogsMessage() {}

// Deps are what the actor needs.
type Deps struct {
	Files   port.ContainerLogs
	Runtime port.LogReopener
	// Running asks for all pods, each with its status. It must not block.
	Running func(reply func([]*v1.Pod))
	Settings
	// Deadline bounds a check and a call to the runtime, StepDeadline a step: a file to compress
	// may be big.
	Deadline, StepDeadline time.Duration
}

// Settings are the configured part of Deps.
type Settings struct {
	// Policy limits the kept logs; MaxSize less than 0 keeps all. (containerLogMaxSize, containerLogMaxFiles)
	Policy containerlogs.Policy
	// Interval is the time between checks. (containerLogMonitorInterval)
	Interval time.Duration
	// Workers is the size of Pool. (containerLogMaxWorkers)
	Workers int
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &logs{
			deps: deps, of: map[port.LogRef]*round{}, doubtful: map[port.LogRef]bool{}, warned: map[port.LogRef]bool{},
			without: map[port.LogRef]bool{},
		}
	}
}

type logs struct {
	deps *Deps
	// of are the logs in rotation.
	of map[port.LogRef]*round
	// doubtful are logs to check whatever their size: a step failed, or they were rotated before.
	doubtful map[port.LogRef]bool
	// warned are logs whose failure was logged. without are logs that the runtime makes no file
	// for, which is asked for once.
	warned, without map[port.LogRef]bool
	// listing and sizing are the running effects.
	listing, sizing kernel.Call
	// listed: the logs that were rotated before are known.
	listed bool
}

// round is the rotation of one log.
//
//	looking ──plan──► stepping ──► looking ──► … ──► nothing to do, or failed
type round struct {
	containerlogs.Round
	id string // of the container, empty if it does not run
	// waits is the effect that the round waits for.
	waits kernel.EffectID
	// failed: a step failed, and one more check decides how to continue.
	failed bool
	// compresses: the step under way. overtaken: it was cancelled, because the log is too big again.
	compresses, overtaken bool
}

// container is a running container.
type container struct {
	ref port.LogRef
	id  string
}

// Start implements kernel.Behavior.
func (a *logs) Start(ctx *kernel.Context[Message]) {
	ctx.After(a.deps.Interval, look{})
	a.list(ctx)
}

// Receive implements kernel.Behavior.
func (a *logs) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case look:
		ctx.After(a.deps.Interval, look{})
		a.list(ctx)
		self := ctx.Self()
		a.deps.Running(func(p []*v1.Pod) { self.Tell(running{p}) })
	case rotated:
		if a.listing.Take(m.id) {
			a.rotated(ctx, m)
		}
	case running:
		a.measure(ctx, m.pods)
	case sized:
		if a.sizing.Take(m.id) {
			a.sized(ctx, m)
		}
	case looked:
		if r := a.of[m.ref]; r != nil && r.waits == m.id {
			a.looked(ctx, r, m)
		}
	case stepped:
		if r := a.of[m.ref]; r != nil && r.waits == m.id {
			a.stepped(ctx, r, m)
		}
	}
}

// list asks for the logs that were rotated before, until they are known.
func (a *logs) list(ctx *kernel.Context[Message]) {
	if a.listed || a.listing.Busy() {
		return
	}
	a.listing.Begin(portcall.Do(ctx, effect("RotatedLogs", "", "", a.deps.Deadline), a.deps.Files.RotatedLogs,
		func(id kernel.EffectID, logs []port.LogRef, err error) Message { return rotated{id, logs, err} }))
}

func (a *logs) rotated(ctx *kernel.Context[Message], m rotated) {
	if m.err != nil {
		ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot list containers for log rotation; retrying")
		return
	}
	a.listed = true
	for _, ref := range m.logs {
		a.doubtful[ref] = true
	}
}

// measure asks for the log sizes of the running containers.
func (a *logs) measure(ctx *kernel.Context[Message], pods []*v1.Pod) {
	if a.sizing.Busy() {
		return
	}
	runs := whatRuns(pods)
	refs := make([]port.LogRef, len(runs))
	for i := range runs {
		refs[i] = runs[i].ref
	}
	a.sizing.Begin(portcall.Do(ctx, effect("LogSizes", "", "", a.deps.Deadline),
		func(c context.Context, done func([]int64, error)) { a.deps.Files.LogSizes(c, refs, done) },
		func(id kernel.EffectID, sizes []int64, err error) Message { return sized{id, runs, sizes, err} }))
}

// whatRuns lists the living containers. The number in a log's name is the container's restart
// count.
func whatRuns(pods []*v1.Pod) (out []container) {
	for _, p := range pods {
		s := &p.Status
		for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses,
			s.EphemeralContainerStatuses} {
			for i := range list {
				c := &list[i]
				if _, id, ok := strings.Cut(c.ContainerID, "://"); ok && podspec.Lives(&p.Spec, c) && c.RestartCount >= 0 {
					out = append(out, container{id: id, ref: port.LogRef{
						Namespace: p.Namespace, Pod: p.Name, UID: p.UID, Container: c.Name, Attempt: uint32(c.RestartCount),
					}})
				}
			}
		}
	}
	return out
}

// sized starts a round for each log that is too big, missing or doubtful.
func (a *logs) sized(ctx *kernel.Context[Message], m sized) {
	if m.err != nil {
		ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot read the sizes of container logs; retrying")
		return
	}
	doubtful, without := a.doubtful, a.without
	a.doubtful, a.without = map[port.LogRef]bool{}, map[port.LogRef]bool{}
	for i, c := range m.runs {
		none := m.sizes[i] < 0
		full := m.sizes[i] >= a.deps.Policy.MaxSize
		if none && without[c.ref] {
			a.without[c.ref] = true
		} else if none || doubtful[c.ref] || full {
			a.begin(ctx, c)
		}
		if r := a.of[c.ref]; full && r.compresses {
			a.overtake(ctx, r, c)
		}
		delete(doubtful, c.ref)
	}
	for _, ref := range inOrder(doubtful) { // not running, as far as podset knows
		a.begin(ctx, container{ref: ref})
	}
}

// overtake gives up the compression of an older file, so that the log is rotated first. One that waits for a slot says
// nothing any more.
func (a *logs) overtake(ctx *kernel.Context[Message], r *round, c container) {
	if r.id = c.id; !ctx.Cancel(r.waits) { // stepped begins again
		r.overtaken = true
		return
	}
	a.end(c.ref, false)
	a.begin(ctx, c)
}

func inOrder(set map[port.LogRef]bool) []port.LogRef {
	return slices.SortedFunc(maps.Keys(set), func(x, y port.LogRef) int {
		return cmp.Or(cmp.Compare(x.UID, y.UID), cmp.Compare(x.Container, y.Container), cmp.Compare(x.Attempt, y.Attempt))
	})
}

func (a *logs) begin(ctx *kernel.Context[Message], c container) {
	if a.of[c.ref] != nil {
		return
	}
	r := &round{Round: containerlogs.Round{Runs: c.id != ""}, id: c.id}
	a.of[c.ref] = r
	a.look(ctx, r, c.ref)
}

func (a *logs) look(ctx *kernel.Context[Message], r *round, ref port.LogRef) {
	r.waits = portcall.Do(ctx, effect("LookAtLog", ref.String(), Pool, a.deps.Deadline),
		func(c context.Context, done func(containerlogs.Log, error)) { a.deps.Files.LookAtLog(c, ref, done) },
		func(id kernel.EffectID, l containerlogs.Log, err error) Message { return looked{id, ref, l, err} })
}

// looked takes the next step.
func (a *logs) looked(ctx *kernel.Context[Message], r *round, m looked) {
	if port.KindOf(m.err) == port.NotFound { // removed with its pod
		a.end(m.ref, false)
		return
	}
	if m.err != nil {
		a.warn(ctx, m.ref, m.err)
		a.end(m.ref, true)
		return
	}
	step := containerlogs.PlanRotation(m.log, r.Round, a.deps.Policy, ctx.Now())
	if _, restores := step.(containerlogs.Restore); step == nil || r.failed && !restores {
		if r.Runs && !m.log.Current && !r.failed {
			a.without[m.ref] = true
		}
		a.end(m.ref, r.failed)
		return
	}
	ended := func(id kernel.EffectID, err error) Message { return stepped{id, m.ref, step, err} }
	if _, reopens := step.(containerlogs.Reopen); reopens {
		container := r.id
		r.waits = portcall.Do0(ctx, effect("ReopenContainerLog", m.ref.String(), "", a.deps.Deadline),
			func(c context.Context, done func(error)) { a.deps.Runtime.ReopenContainerLog(c, container, done) }, ended)
		return
	}
	if _, rotates := step.(containerlogs.Rotate); rotates {
		r.Rotated = true
	}
	_, r.compresses = step.(containerlogs.Compress)
	r.waits = portcall.Do0(ctx, effect("StepLog", m.ref.String(), Pool, a.deps.StepDeadline),
		func(c context.Context, done func(error)) { a.deps.Files.StepLog(c, m.ref, step, done) }, ended)
}

// stepped checks the log after a step. If the runtime refused, the rotated file is put back; any
// other failure is left to the next round.
func (a *logs) stepped(ctx *kernel.Context[Message], r *round, m stepped) {
	if r.compresses = false; r.overtaken {
		a.end(m.ref, false)
		a.begin(ctx, container{id: r.id, ref: m.ref})
		return
	}
	_, reopens := m.step.(containerlogs.Reopen)
	if m.err != nil {
		a.warn(ctx, m.ref, m.err)
		if r.failed = true; !reopens {
			a.end(m.ref, true)
			return
		}
	}
	r.Refused = r.Refused || reopens // asked once per round
	a.look(ctx, r, m.ref)
}

// end ends a round. A failed one is repeated at the next check.
func (a *logs) end(ref port.LogRef, failed bool) {
	delete(a.of, ref)
	if failed {
		a.doubtful[ref] = true
	} else {
		delete(a.warned, ref)
	}
}

// warn logs a failure once, until the log is rotated again.
func (a *logs) warn(ctx *kernel.Context[Message], ref port.LogRef, err error) {
	if !a.warned[ref] {
		a.warned[ref] = true
		ctx.Log().Warn().Str("log", ref.String()).Str("error", err.Error()).Msg("cannot rotate a container log; retrying")
	}
}

func effect(kind, object, pool string, deadline time.Duration) kernel.Effect[Message] {
	lane := object
	if lane == "" {
		lane = kind
	}
	return kernel.Effect[Message]{Kind: kind, Object: object, Lane: lane, Pool: pool, Deadline: deadline,
		Patience: deadline / 2}
}
