package simapi

import (
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// Verb is one request of the API.
type Verb uint8

const (
	Get Verb = iota
	Create
	Update
	Patch
	Delete
	CreateToken
	// List and Watch make up a port's watch: it lists, then watches from there. When it breaks it
	// watches again from where it was, or lists again if the history is gone.
	List
	Watch
	verbCount
)

var verbNames = [verbCount]string{"Get", "Create", "Update", "Patch", "Delete", "CreateToken", "List", "Watch"}

// Verbs are all verbs, in order.
func Verbs() []Verb {
	all := make([]Verb, verbCount)
	for i := range all {
		all[i] = Verb(i)
	}
	return all
}

func (v Verb) String() string {
	if v < verbCount {
		return verbNames[v]
	}
	return "invalid"
}

// Call is one call of a client, for Config.Fault.
type Call struct {
	// Node is the node of the client.
	Node string
	Verb Verb
	// Key is the object: without a name for List, Watch and a creation with generateName.
	Key port.APIKey
	// Status: it patches the status.
	Status bool
	// Field is the field selector of List and Watch.
	Field string
}

// Latencies are the times until a call takes effect.
type Latencies [verbCount]Dist

// DefaultLatencies are used if Config has none.
//
// Measured by
//
//	cd tests/e2e && TROUPE_MEASURE=1 go test -count=1 -run TestMeasure -v ./apiserver
//
// which prints these lines (median and 99th percentile of 300) as our own client
// sees a kube-apiserver v1.36.3 with one etcd 3.6 on the same machine of 2 cores,
// one call after another; rounded. List is from a watch's beginning until all
// that there is was told. Watch, one that continues where it was, is an ESTIMATE.
func DefaultLatencies() Latencies { return defaultLatencies }

var defaultLatencies = Latencies{
	Get:         simport.Lognormal(1600*time.Microsecond, 6*time.Millisecond),
	Create:      simport.Lognormal(3200*time.Microsecond, 10*time.Millisecond),
	Update:      simport.Lognormal(2700*time.Microsecond, 6100*time.Microsecond),
	Patch:       simport.Lognormal(3900*time.Microsecond, 8800*time.Microsecond),
	Delete:      simport.Lognormal(4500*time.Microsecond, 9800*time.Microsecond),
	CreateToken: simport.Lognormal(3500*time.Microsecond, 7300*time.Microsecond),
	List:        simport.Lognormal(76*time.Millisecond, 83*time.Millisecond),
	Watch:       simport.Lognormal(2*time.Millisecond, 10*time.Millisecond),
}

// DefaultWatchLag is the delay of watch events, if Config sets none. An ESTIMATE for a busy
// apiserver: an idle one sends the event while it answers the call that caused it, and in one of
// a hundred cases 0.4 ms later.
func DefaultWatchLag() Dist { return defaultWatchLag }

var defaultWatchLag = simport.Lognormal(2*time.Millisecond, 15*time.Millisecond)

// refusedConnection is the time until a refused connection fails.
const refusedConnection = 500 * time.Microsecond
