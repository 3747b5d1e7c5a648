package imagepull

import (
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Waiter is one container that waits for an image, or what waits for it instead of one.
//
//	Asked ──a pull was made that brings it the image──► Brought ──there──► Served: it is about to leave
//	  │  ▲                                                 │                  ▲
//	  │  └────────────it is not there after all────────────┘                  │
//	  └──there, and it may use it─────────────────────────────────────────────┘
type Waiter struct {
	State WaiterState
	// Pod is whose container it is. Lowest: no pod waits, and it gives way to each pod that needs a pull.
	Pod    *v1.Pod
	Lowest bool
	// Asker is the caller's: whom its answers go to.
	Asker any
	Ask   Request
	// Secrets are its pull secrets, Lookup what else it pulls with, and Found the answer to that.
	Secrets *Fit
	Lookup  Lookup
	Found   Found
	// lookedUpAt is when the last lookup began.
	lookedUpAt time.Time
	// Told is what it was told last.
	Told Status
	// since is when people were told that it waits for a pull; zero if they were not, or that pull failed.
	since time.Time
	// Verdict is whether it may use the image that is there, and RefusedBy the record that says that it may not.
	Verdict   Verdict
	RefusedBy *Record
}

// WaiterState is how far a waiter is.
type WaiterState uint8

// The states of a waiter.
const (
	Asked WaiterState = iota
	Brought
	Served
)

func (s WaiterState) String() string { return [...]string{"Asked", "Brought", "Served"}[s] }

// Lookup is how far it is known what a waiter pulls with apart from pull secrets. It is looked up for each pull: what a
// plugin answers counts for a while only.
//
//	Unasked ──needs a pull──► LookingUp ──found, or no answer──► Known ──the backoff of its failure is over──► LookingUp
//	   ▲                         │
//	   └──credentials restarted──┘
type Lookup uint8

// The stages of a lookup.
const (
	Unasked Lookup = iota
	LookingUp
	Known
)

func (l Lookup) String() string { return [...]string{"Unasked", "LookingUp", "Known"}[l] }

// Found is what a waiter pulls with apart from pull secrets.
type Found struct {
	Offers []Offer
	// Failures say which plugins could not be asked, and why.
	Failures []string
}

// Verdict is whether a container may use an image that is there.
type Verdict uint8

// The verdicts.
const (
	Unverified Verdict = iota // it is not known yet
	Allowed
	Refused
)

func (v Verdict) String() string { return [...]string{"Unverified", "Allowed", "Refused"}[v] }

// Offers are what a container may pull an image with, in the order in which it is tried: what fits of the pull secrets,
// of the docker configuration of the node, and of what plugins have answered.
func (w *Waiter) Offers() iter.Seq[Offer] {
	return func(yield func(Offer) bool) {
		for o := range w.Secrets.All() {
			if !yield(o) {
				return
			}
		}
		for _, o := range w.Found.Offers {
			if !yield(o) {
				return
			}
		}
	}
}

// SecretsKnown says whether the pull secrets of its pod are known.
func (w *Waiter) SecretsKnown() bool { return w.Secrets != nil && w.Secrets.Known }

// Begun notes that it is being looked up what a waiter pulls with.
func (w *Waiter) Begun(now time.Time) { w.Lookup, w.lookedUpAt = LookingUp, now }

// Lost notes that a lookup is not answered any more.
func (w *Waiter) Lost() { w.Lookup = Unasked }

// Gave is the answer. Who may use an image by it is found out anew.
func (w *Waiter) Gave(f Found) { w.Lookup, w.Found, w.RefusedBy = Known, f, nil }

// purse tells apart what waiters may pull an image with: the containers of a pod have the same pull secrets. There may
// be thousands of containers, and of credentials.
type purse struct {
	fit   *Fit
	found *Offer // the first
}

func (w *Waiter) purse() purse {
	p := purse{fit: w.Secrets}
	if len(w.Found.Offers) > 0 {
		p.found = &w.Found.Offers[0]
	}
	return p
}

// credentials are those that are tried for an image, one after the other: those that fit, or none at all.
func (w *Waiter) credentials() []Credential {
	out := make([]Credential, 0, w.Secrets.Len()+len(w.Found.Offers))
	seen := make(map[Credential]bool, cap(out))
	for o := range w.Offers() {
		if !seen[o.Credential] {
			seen[o.Credential] = true
			out = append(out, o.Credential)
		}
	}
	if len(out) == 0 {
		return nothing
	}
	return out
}

// nothing is to pull without a credential.
var nothing = []Credential{{}}

func (w *Waiter) has(c Credential) bool {
	for o := range w.Offers() {
		if o.Credential == c {
			return true
		}
	}
	return false
}
