package simcri

import "time"

// Latencies are the times until a call takes effect, without the times in its parameters (grace,
// a command's time, a download).
type Latencies [methodCount]Dist

// DefaultLatencies are used if Config has none.
//
// Measured by
//
//	cd tests/e2e && TROUPE_MEASURE=1 go test -count=1 -timeout 30m -run TestMeasure -v ./contract
//
// which prints these lines (median and 99th percentile of 200) as they come out
// of our own client on containerd 2.4.2, one pod after another with nothing else in
// the runtime, the program a static binary of 2 MB, on a virtual machine of 2 cores
// that had other work as well; rounded. Containerd 1.6.20 differed by less than
// a fifth in the medians of all calls that start or end something.
//
// UpdateContainer, ContainerMemory, PullImage and DefaultEventDelay were measured
// the same way on a quieter machine, where the others took a tenth to a sixth
// less. PullImage is what containerd takes for an image without its bytes, the
// registry on the same machine; the bytes come at the bandwidth that there is.
//
// ESTIMATES are what the command does not print: UpdateSandbox; Events, which is
// how long the stream takes to open; and the three of the network, which are what a server on
// the same machine takes that does nothing.
//
// StopContainer is one with no grace. ContainerStatus was measured at 1.3 ms as
// two calls, since our client asks for the sandbox too; a half of that is here.
func DefaultLatencies() Latencies { return defaultLatencies }

var defaultLatencies = Latencies{
	Version:          Lognormal(350*time.Microsecond, 1100*time.Microsecond),
	Status:           Lognormal(430*time.Microsecond, 1700*time.Microsecond),
	RunPodSandbox:    Lognormal(114*time.Millisecond, 198*time.Millisecond),
	StopPodSandbox:   Lognormal(76*time.Millisecond, 127*time.Millisecond),
	RemovePodSandbox: Lognormal(17*time.Millisecond, 40*time.Millisecond),
	PodSandboxStatus: Lognormal(630*time.Microsecond, 3700*time.Microsecond),
	CreateContainer:  Lognormal(8500*time.Microsecond, 16400*time.Microsecond),
	StartContainer:   Lognormal(59*time.Millisecond, 104*time.Millisecond),
	StopContainer:    Lognormal(48*time.Millisecond, 112*time.Millisecond),
	RemoveContainer:  Lognormal(2800*time.Microsecond, 11500*time.Microsecond),
	ContainerStatus:  Lognormal(650*time.Microsecond, 2500*time.Microsecond),
	ExecSync:         Lognormal(40*time.Millisecond, 66*time.Millisecond),
	UpdateContainer:  Lognormal(9900*time.Microsecond, 19400*time.Microsecond),
	UpdateSandbox:    Lognormal(1500*time.Microsecond, 5*time.Millisecond),
	ContainerMemory:  Lognormal(2400*time.Microsecond, 7700*time.Microsecond),
	List:             Lognormal(980*time.Microsecond, 4100*time.Microsecond),
	PullImage:        Lognormal(20400*time.Microsecond, 45*time.Millisecond),
	ImageStatus:      Lognormal(380*time.Microsecond, 1500*time.Microsecond),
	ListImages:       Lognormal(350*time.Microsecond, 800*time.Microsecond),
	RemoveImage:      Lognormal(7700*time.Microsecond, 38800*time.Microsecond),
	Events:           Lognormal(300*time.Microsecond, 2*time.Millisecond),
	ProbeHTTP:        Lognormal(700*time.Microsecond, 4*time.Millisecond),
	ProbeTCP:         Lognormal(150*time.Microsecond, 1*time.Millisecond),
	ProbeGRPC:        Lognormal(1500*time.Microsecond, 6*time.Millisecond),
}

// refusedConnection is the time until a call to a stopped runtime fails.
const refusedConnection = 200 * time.Microsecond

// DefaultEventDelay is the delay of the event of a container's end.
func DefaultEventDelay() Dist { return defaultEventDelay }

var defaultEventDelay = Lognormal(33*time.Millisecond, 47500*time.Microsecond)

// DefaultBandwidth is what all pulls of a machine share, in bytes of image per
// second. It is the network's, which is for a world to say: containerd itself
// fetched and unpacked 376 MiB a second of a registry on the same machine.
const DefaultBandwidth = 40 << 20

// Sizes of images without a given size, in bytes: lognormal. ESTIMATES.
const (
	imageSizeMedian = 60e6
	imageSizeP99    = 1.2e9
)
