package simcri

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// Clock is the time of the simulated machine.
type Clock = simport.Clock

// The random streams that a Runtime requests from Config.Rand. A new use of randomness gets a new
// stream, so that the draws of the others do not change.
const (
	StreamIDs     = "simcri/ids"     // sandbox and container IDs
	StreamLatency = "simcri/latency" // how long calls take
	StreamScripts = "simcri/scripts" // durations in scripts
	StreamFaults  = "simcri/faults"  // late effects, lost, late and doubled events
	StreamNetwork = "simcri/network" // how long probes over the network take
)

// Config has all inputs of a Runtime. Clock and Rand are required.
type Config struct {
	Clock Clock
	// Rand returns the random stream of a name. It is called once per stream, in New.
	Rand func(stream string) *rand.Rand

	// Registry is the source of images; nil is a new one that has every image. Many runtimes may
	// share one.
	Registry *Registry
	// Bandwidth is shared by all pulls of this machine, in bytes of image per second, including
	// unpacking. 0 is DefaultBandwidth.
	Bandwidth uint64
	// PodCIDR is the range of pod addresses; the zero value is DefaultPodCIDR.
	PodCIDR netip.Prefix

	// Latencies are the durations of calls; nil is DefaultLatencies.
	Latencies *Latencies
	// LateEffect is the chance, 0 to 1, that a call takes effect although its
	// context ended, or the runtime was killed, before it was answered.
	LateEffect float64

	// DefaultScript is for containers without another script; nil is DefaultScript().
	DefaultScript *Script
	// Script returns the script of a container that starts; nil, or a nil answer, leaves it to
	// the pod's annotations and DefaultScript. It is called under the runtime's lock and must not
	// call the runtime.
	Script func(Starting) *Script
	// Fault returns the fault of a call; nil is no fault. It is called on the caller's goroutine,
	// without the lock.
	Fault func(Call) Fault
	// Events configures faults of the event stream.
	Events EventPolicy
	// Observe is told of each change of a sandbox or container in the instant of the change,
	// under the runtime's lock: it must not call the runtime. May be nil.
	Observe func(Transition)
}

// maxBandwidth keeps the arithmetic of downloads within 64 bits.
const maxBandwidth = 1 << 50

// DefaultPodCIDR is used if Config has none.
var DefaultPodCIDR = netip.MustParsePrefix("10.88.0.0/24")

// Validate returns what is wrong with the configuration.
func (c *Config) Validate() error {
	var errs []error
	if c.Clock == nil {
		errs = append(errs, errors.New("simcri: Clock is required"))
	}
	if c.Rand == nil {
		errs = append(errs, errors.New("simcri: Rand is required"))
	}
	if c.LateEffect < 0 || c.LateEffect > 1 {
		errs = append(errs, fmt.Errorf("simcri: LateEffect %v: want a chance, 0 to 1", c.LateEffect))
	}
	if c.PodCIDR != (netip.Prefix{}) && !c.PodCIDR.IsValid() {
		errs = append(errs, errors.New("simcri: PodCIDR is not a valid prefix"))
	}
	if c.Bandwidth > maxBandwidth {
		errs = append(errs,
			fmt.Errorf("simcri: Bandwidth %d: want at most %d bytes per second", c.Bandwidth, uint64(maxBandwidth)))
	}
	if c.Latencies != nil {
		for m, d := range c.Latencies {
			if err := d.Validate(); err != nil {
				errs = append(errs, fmt.Errorf("simcri: Latencies[%s]: %w", Method(m), err))
			}
		}
	}
	if err := c.Events.validate(); err != nil {
		errs = append(errs, err)
	}
	if c.DefaultScript != nil {
		if err := c.DefaultScript.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("simcri: DefaultScript: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Runtime is the simulated runtime of one machine. It implements port.Runtime.
type Runtime struct {
	cfg   Config
	began time.Time
	ids   *rand.Rand
	lat   *rand.Rand
	scr   *rand.Rand
	flt   *rand.Rand
	net   *rand.Rand
	base  *Script // for containers without another script

	mu   *simport.Stage
	down bool
	// loading: it has restarted and has not read its state yet; stopLoading cancels the end of that.
	loading     bool
	stopLoading func() bool
	// silent: changes make no events.
	silent     bool
	calls      [methodCount]uint64
	pods       map[types.UID]*pod
	sandboxes  map[string]*sandbox
	containers map[string]*container
	images     map[string]*image // by name
	pulling    *pulls
	addresses  addressPool
	// located are the sandboxes with an address, by its offset in the pool, and onHost those on
	// the host's network.
	located  map[uint32]*sandbox
	onHost   []*sandbox
	subs     []*subscription
	inflight *simport.Calls
}

var _ port.Runtime = (*Runtime)(nil)

// New makes an empty runtime.
func New(cfg Config) (*Runtime, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Registry == nil {
		cfg.Registry = NewRegistry()
	}
	if cfg.Bandwidth == 0 {
		cfg.Bandwidth = DefaultBandwidth
	}
	if cfg.PodCIDR == (netip.Prefix{}) {
		cfg.PodCIDR = DefaultPodCIDR
	}
	if cfg.Latencies == nil {
		cfg.Latencies = &defaultLatencies
	}
	base := cfg.DefaultScript
	if base == nil {
		base = &defaultScript
	}
	stage, flt := simport.NewStage(cfg.Clock), cfg.Rand(StreamFaults)
	return &Runtime{
		cfg: cfg, began: cfg.Clock.Now(), base: base, mu: stage, inflight: simport.NewCalls(stage, cfg.LateEffect, flt),
		ids: cfg.Rand(StreamIDs), lat: cfg.Rand(StreamLatency),
		scr: cfg.Rand(StreamScripts), flt: flt, net: cfg.Rand(StreamNetwork),
		pods:       map[types.UID]*pod{},
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
		images:     map[string]*image{},
		addresses:  newAddressPool(cfg.PodCIDR),
		located:    map[uint32]*sandbox{},
	}, nil
}
