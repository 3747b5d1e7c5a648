package machine

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/actors/rescue"
)

// Machine has the parts of one simulated machine.
type Machine struct {
	Host        *Host
	Cgroups     *Cgroups
	Checkpoints *Checkpoints
	PullRecords *PullRecords
	Manifests   *Manifests
	Files       *ContainerFiles
	Facts       *Facts
	Pressure    *Pressure
	OOM         *OOM
	Plugins     *Plugins
	CSI         *CSI
	Credentials *CredentialPlugins
}

// New makes a machine with empty disks, which is what facts say.
func New(clock simport.Clock, facts *port.Machine) *Machine {
	m := &Machine{
		Host:        newHost(clock),
		Cgroups:     newCgroups(clock),
		Checkpoints: &Checkpoints{Calls: Calls{clock: clock}},
		PullRecords: newPullRecords(clock),
		Manifests:   &Manifests{Calls: Calls{clock: clock}},
		Files:       newContainerFiles(clock),
		Facts:       &Facts{Calls: Calls{clock: clock}, machine: facts},
		Pressure:    newPressure(clock),
		OOM:         newOOM(clock),
		Plugins:     newPlugins(clock),
		CSI:         newCSI(clock, facts.Info.MachineID),
		Credentials: newCredentialPlugins(clock),
	}
	m.Host.published = m.CSI.left
	return m
}

func (m *Machine) calls() []*Calls {
	return []*Calls{
		&m.Host.Calls, &m.Cgroups.Calls, &m.Checkpoints.Calls, &m.Manifests.Calls, &m.Files.Calls, &m.Facts.Calls,
		&m.Pressure.Calls, &m.OOM.Calls, &m.Plugins.Calls, &m.CSI.Calls, &m.PullRecords.Calls,
		&m.Credentials.Calls,
	}
}

// SetFault makes all parts ask fault what goes wrong.
func (m *Machine) SetFault(fault func(Call) Fault) {
	for _, c := range m.calls() {
		c.Fault = fault
	}
}

// LosePower ends what only the kernel had: mounts, what was in memory, cgroups, device plugins, CSI drivers, and
// calls that were under way. The disk stays as it is.
func (m *Machine) LosePower() {
	for _, c := range m.calls() {
		c.mu.Lock()
		c.boots++
		c.mu.Unlock()
	}
	m.Host.losePower()
	m.Cgroups.clear()
	m.Plugins.losePower()
	m.CSI.losePower()
}

// Boot: the power is back. Device plugins and CSI drivers start again.
func (m *Machine) Boot() {
	m.Plugins.boot()
	m.CSI.boot()
}

// Call is one call of a port of the machine.
type Call struct {
	// Verb is the method: PreparePod, MountVolume, GrowVolume, MountSubPaths, UnmountPod,
	// RemovePod, PodDirs; SetCgroup, GetCgroup, RemovePodCgroup, PodCgroups; LoadCheckpoint,
	// SaveCheckpoint, SetAsideCheckpoint; ReadManifests, FetchManifest; MakeFiles, ReadEnvFiles, WriteHosts,
	// TerminationMessage; ReadFacts; MeasureNode, MeasurePods, WatchMemory; WatchOOM, CountOOM; WatchDevicePlugins,
	// ListDevices, PreferDevices, AllocateDevices, PreStartDevices; NewPodKey, WrittenCertificate;
	// WatchCSIDrivers, NodeGetInfo, FoundVolumes, NodeStageVolume, NodePublishVolume, NodeUnpublishVolume,
	// NodeUnstageVolume, NodeExpandVolume, NodeGetVolumeStats; LoadPullRecords, SavePullIntent, SavePullRecord,
	// RemovePullRecord, SetAsidePullRecord; RunCredentialPlugin, ReadDockerConfig.
	Verb string
	// Pod is the UID of the pod that it is about, Volume the name of the volume, Name
	// that of the checkpoint or the file of a pull record, the path of the cgroup, the resource of the device plugin,
	// driver and handle of the volume, or the credential provider plugin. Empty where there is none.
	Pod, Volume, Name string
}

// Fault is what goes wrong with such a call. The zero value is nothing.
type Fault struct {
	// Err is answered instead, and nothing is done.
	Err error
	// Works: the call is done as usual, and Err is answered. Of calls of CSI drivers, and with Panics.
	Works bool
	// Panics: the port panics with the text of Err, before it has done anything, or with Works after it has.
	Panics bool
	// Hang: nothing is done and no answer comes, ever.
	Hang bool
	// Latency comes on top of the call's own.
	Latency time.Duration
	// AnswerLate: the call is done as usual, and answered this much later with what was true
	// when it was done. A machine cannot take an answer back: it comes although the caller
	// gave up.
	AnswerLate time.Duration
	// WorkLate: the call is done this much later, also if its caller gave up or was killed
	// before.
	WorkLate time.Duration
}

// Calls are the calls of one part of a machine.
type Calls struct {
	// Fault says what goes wrong with a call, when the call is made; nil for nothing.
	Fault func(Call) Fault
	// Observe is told of each call in the instant in which it takes effect; may be nil.
	Observe func(Call)

	clock simport.Clock
	mu    sync.Mutex
	// boots counts the losses of power.
	boots int
}

// afterBoot calls start after d, unless the power is lost before.
func (c *Calls) afterBoot(d time.Duration, start func()) {
	c.mu.Lock()
	boot := c.boots
	c.mu.Unlock()
	c.clock.AfterFunc(d, func() {
		c.mu.Lock()
		same := c.boots == boot
		c.mu.Unlock()
		if same {
			start()
		}
	})
}

// How long calls take.
const (
	hostLatency   = 2 * time.Millisecond // of file systems
	cgroupLatency = time.Millisecond
	diskLatency   = time.Millisecond // to read a small file
	writeLatency  = 3 * diskLatency  // to write a small file and flush it
)

// do calls f under the lock once the latency is over, and then done, unless a fault
// says otherwise. These are no simport.Op: most are system calls, which cannot be given
// up while they run, and their answers come in the end.
func (c *Calls) do(ctx context.Context, call Call, latency time.Duration, done func(error), f func() error) {
	var fault Fault
	if c.Fault != nil {
		fault = c.Fault(call)
	}
	if fault.Hang {
		return
	}
	c.mu.Lock()
	boot := c.boots
	c.mu.Unlock()
	c.clock.AfterFunc(latency+fault.Latency+fault.WorkLate, func() {
		err := c.work(ctx, call, &fault, boot, f)
		if fault.panicked(err) {
			fault.panic(ctx, call, done)
			return
		}
		if fault.AnswerLate > 0 {
			c.clock.AfterFunc(fault.AnswerLate, func() { done(err) })
			return
		}
		done(err)
	})
}

// work calls f, unless the caller gave up before, the power was lost since boot, or the call fails.
func (c *Calls) work(ctx context.Context, call Call, fault *Fault, boot int, f func() error) error {
	c.mu.Lock()
	lost := c.boots != boot
	c.mu.Unlock()
	switch {
	case lost, ctx.Err() != nil && fault.WorkLate == 0:
		return &port.Error{Kind: port.Canceled, Verb: call.Verb, Object: call.object(), Detail: "the caller gave up"}
	case fault.Err != nil && !fault.Works:
		return fault.Err
	}
	if c.Observe != nil {
		c.Observe(call)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(f(), fault.Err)
}

// panicked says whether the port panics instead of answering with err.
func (f *Fault) panicked(err error) bool { return f.Panics && errors.Is(err, f.Err) }

// panic panics as the goroutine of a port may that works for ctx, and fails the call with the text.
func (f *Fault) panic(ctx context.Context, call Call, done func(error)) {
	defer rescue.Call(ctx, func(reason string) { done(port.Panicked(call.Verb, call.object())(reason)) })
	panic(f.Err.Error())
}

func (c *Call) object() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Pod
}

// Facts is what the machine is.
type Facts struct {
	Calls
	machine *port.Machine
}

// Set replaces what the machine is.
func (f *Facts) Set(m *port.Machine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.machine = m
}

// Get gives what the machine is. Nobody changes it.
func (f *Facts) Get() *port.Machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.machine
}

// Machine implements port.NodeFacts.
func (f *Facts) Machine(ctx context.Context, done func(*port.Machine, error)) {
	var m *port.Machine
	f.do(ctx, Call{Verb: "ReadFacts"}, hostLatency, func(err error) { done(m, err) }, func() error {
		m = f.machine
		return nil
	})
}
