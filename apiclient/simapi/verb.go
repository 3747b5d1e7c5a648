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
	// List and Watch are what a port's watch is made of: it lists, then watches
	// from there; when it breaks it watches from where it was, and lists again if
	// that is too long ago.
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

// Call is one call of a client, as Config.Fault sees it.
type Call struct {
	// Node is whose client it is.
	Node string
	Verb Verb
	// Key is what it is about: without a name for List, Watch and a creation with
	// generateName.
	Key port.APIKey
	// Status: it patches the status.
	Status bool
	// Field is the field selector of List and Watch.
	Field string
}

// Latencies is how long each call takes until it takes effect.
type Latencies [verbCount]Dist

// DefaultLatencies is the table that is used if Config has none. ESTIMATES: of
// a control plane with one etcd on the same network, not loaded.
func DefaultLatencies() Latencies { return defaultLatencies }

var defaultLatencies = Latencies{
	Get:         simport.Lognormal(1500*time.Microsecond, 8*time.Millisecond),
	Create:      simport.Lognormal(5*time.Millisecond, 25*time.Millisecond),
	Update:      simport.Lognormal(4*time.Millisecond, 20*time.Millisecond),
	Patch:       simport.Lognormal(5*time.Millisecond, 25*time.Millisecond),
	Delete:      simport.Lognormal(5*time.Millisecond, 25*time.Millisecond),
	CreateToken: simport.Lognormal(3*time.Millisecond, 15*time.Millisecond),
	List:        simport.Lognormal(4*time.Millisecond, 40*time.Millisecond),
	Watch:       simport.Lognormal(2*time.Millisecond, 10*time.Millisecond),
}

// DefaultWatchLag is how late a watch tells, if Config does not say. An ESTIMATE.
func DefaultWatchLag() Dist { return defaultWatchLag }

var defaultWatchLag = simport.Lognormal(2*time.Millisecond, 15*time.Millisecond)

// refusedConnection is how long it takes to learn that nobody listens;
// dialTimeout, that nobody answers (client-go's default).
const (
	refusedConnection = 500 * time.Microsecond
	dialTimeout       = 30 * time.Second
)
