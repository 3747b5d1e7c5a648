package simcri

import "time"

// Latencies is how long each call takes until it takes effect, what its own
// parameters add (grace, a command's time, a download) not counted.
type Latencies [methodCount]Dist

// DefaultLatencies is the table that is used if Config has none.
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
// ESTIMATES are those that it did not measure when the table was made:
// UpdateContainer and ContainerMemory; PullImage, because the registry was on the
// same machine (8 ms there; here it is what a registry some 20 ms away takes for its
// three or four round trips); Events, which is how long the stream takes to open; and
// the three of the network, which are what a server on the same machine takes that
// does nothing. How late an event comes is Config.Events.Delay, none by default. The
// command prints all of these but the stream's opening and the network's.
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
	UpdateContainer:  Lognormal(9*time.Millisecond, 25*time.Millisecond),
	ContainerMemory:  Lognormal(900*time.Microsecond, 4*time.Millisecond),
	List:             Lognormal(980*time.Microsecond, 4100*time.Microsecond),
	PullImage:        Lognormal(80*time.Millisecond, 1*time.Second),
	ImageStatus:      Lognormal(380*time.Microsecond, 1500*time.Microsecond),
	ListImages:       Lognormal(350*time.Microsecond, 800*time.Microsecond),
	RemoveImage:      Lognormal(7700*time.Microsecond, 38800*time.Microsecond),
	Events:           Lognormal(300*time.Microsecond, 2*time.Millisecond),
	ProbeHTTP:        Lognormal(700*time.Microsecond, 4*time.Millisecond),
	ProbeTCP:         Lognormal(150*time.Microsecond, 1*time.Millisecond),
	ProbeGRPC:        Lognormal(1500*time.Microsecond, 6*time.Millisecond),
}

// refusedConnection is how long it takes to learn that the runtime is not there.
const refusedConnection = 200 * time.Microsecond

// DefaultBandwidth is what all pulls of a machine share, in bytes of image per
// second, unpacking included. An ESTIMATE.
const DefaultBandwidth = 40 << 20

// Sizes of images that nobody gave a size, in bytes: lognormal. ESTIMATES.
const (
	imageSizeMedian = 60e6
	imageSizeP99    = 1.2e9
)
