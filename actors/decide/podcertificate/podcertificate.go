// Package podcertificate decides how a pod gets a certificate, and when the next one (KEP-4317): when a
// PodCertificateRequest is made, what its answer means, and what people are told.
//
//	what lies in the volume, answers of the apiserver, now ──► state ──► entry for the pod, next step, events
//
// It never sees a key: podspec.PrivateKey shows nothing.
package podcertificate

import (
	"fmt"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// State is how far a certificate is.
//
//	         what lies in the volume is good
//	Reading ────────────────────────────────► Fresh ◄──────────────┐
//	   │ it is not, or there is nothing         │ time to refresh  │ Issued
//	   ▼                                        ▼                  │
//	Wanted ◄────────────────────────────────────┘                  │
//	   │ ▲ the call failed: again                                  │
//	   ▼ │                                                         │
//	Requested ─────────────────────────────────────────────────────┘
//	   │ ▲ the request is gone: Wanted again
//	   ├──► Denied, for good
//	   └──► Failed ──after a while──► Wanted
//
// Wanted, Requested and Failed may have an older certificate, which pods use as long as there is no newer one.
type State uint8

const (
	// Reading: the last agent may have written one, and it is being looked for.
	Reading State = iota
	// Wanted: a key is to be made, and a request.
	Wanted
	// Requested: the request is there, and the signer has not answered.
	Requested
	// Fresh: there is one, and it is not time for the next.
	Fresh
	// Denied: the signer refuses. A signer means that for good.
	Denied
	// Failed: the signer could not do it.
	Failed
)

// String is the state as a word.
func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

var states = [...]string{"reading", "wanted", "requested", "fresh", "denied", "failed"}

const (
	// overdueAfter is how long after its refresh time a certificate is overdue, as in a kubelet.
	overdueAfter = 10 * time.Minute
	// refreshSpread spreads the refreshes of pods that began at the same time, restoredSpread those after a restart of
	// the agent.
	refreshSpread  = 5 * time.Minute
	restoredSpread = 10 * time.Second
	// refreshEvery is how soon after an issuance the next is asked for. The time to refresh may be past already: the
	// signer issues for too short a time, or the clock of the node is ahead.
	refreshEvery = time.Minute
	// abandonAfter is after what time a request that the watch does not show must have been deleted: the apiserver may be
	// behind.
	abandonAfter = 10 * time.Minute
)

// afterFailure is how long a signer that failed is left alone.
var afterFailure = backoff.Policy{Base: time.Minute, Max: time.Hour}

// Certificate is one certificate of a pod. The zero value is Reading.
type Certificate struct {
	State State
	// Held is the certificate that the pod has; nil for none. Invariant: Fresh has one, Reading has none.
	Held *podspec.IssuedCertificate
	// Request is the name of the PodCertificateRequest, key the one that it is for. Requested only.
	Request string
	key     podspec.PrivateKey
	// at is when it was made or last looked for, or when the signer failed.
	at time.Time
	// failures is how often the signer failed in a row.
	failures int
	// reason says why it is Denied or Failed, or why the request before Wanted failed.
	reason string
	// What people have been told of Held.
	overdueTold, expiredTold bool
}

// Check says that its invariant does not hold.
func (c *Certificate) Check() error {
	if c.State == Fresh && c.Held == nil || c.State == Reading && c.Held != nil {
		return fmt.Errorf("podcertificate: Held: Fresh has one, Reading has none: it is %v", c.State)
	}
	return nil
}

// Event is one for people, of the pod. All are warnings.
type Event struct{ Reason, Message string }

// Found applies what lay in the volume: nil for nothing. The pod keeps it until there is a newer one, which is asked
// for soon: only its request said when to refresh it. spread is a number from 0 to 1.
func (c *Certificate) Found(held *podspec.IssuedCertificate, now time.Time, spread float64) {
	c.must(Reading)
	if held == nil || !now.Before(held.Expires) {
		c.State = Wanted
		return
	}
	if held.RefreshAt.IsZero() {
		kept := *held
		kept.RefreshAt = now.Add(time.Duration(spread * float64(restoredSpread)))
		held = &kept
	}
	c.hold(held)
}

// Asked says that a request was made, with a key.
func (c *Certificate) Asked(request string, key podspec.PrivateKey, made time.Time) {
	c.must(Wanted)
	c.State, c.Request, c.key, c.at, c.reason = Requested, request, key, made, ""
}

// Seen applies a version of a request; those of others are none of its own. spread is a number from 0 to 1.
func (c *Certificate) Seen(r *certificatesv1beta1.PodCertificateRequest, now time.Time, spread float64) []Event {
	if c.State != Requested || r.Name != c.Request {
		return nil
	}
	for i := range r.Status.Conditions {
		condition := &r.Status.Conditions[i]
		because := fmt.Sprintf("reason=%q, message=%q", condition.Reason, condition.Message) // both as a kubelet has them
		reason := fmt.Sprintf("reason=%q message=%q", condition.Reason, condition.Message)
		switch condition.Type {
		case certificatesv1beta1.PodCertificateRequestConditionTypeDenied:
			c.end(Denied, "PodCertificateRequest was permanently denied: "+reason, now)
			return []Event{{condition.Type, "PodCertificateRequest " + r.Namespace + "/" + r.Name + " was denied, " + because}}
		case certificatesv1beta1.PodCertificateRequestConditionTypeFailed:
			return c.fail(r, because, reason, now)
		case certificatesv1beta1.PodCertificateRequestConditionTypeIssued:
			chain := cleanChain(r.Status.CertificateChain)
			if len(chain) == 0 || r.Status.BeginRefreshAt == nil || r.Status.NotAfter == nil {
				const missing = "the signer issued it without a certificateChain, beginRefreshAt or notAfter"
				return c.fail(r, missing, missing, now)
			}
			c.failures = 0
			refresh := r.Status.BeginRefreshAt.Add(time.Duration(spread * float64(refreshSpread)))
			if soonest := now.Add(refreshEvery); refresh.Before(soonest) {
				refresh = soonest
			}
			c.hold(&podspec.IssuedCertificate{Key: c.key, Chain: chain, Expires: r.Status.NotAfter.Time, RefreshAt: refresh})
			return nil
		}
	}
	return nil
}

func (c *Certificate) fail(
	r *certificatesv1beta1.PodCertificateRequest, because, reason string, now time.Time,
) []Event {
	c.failures++
	c.end(Failed, "PodCertificateRequest failed: "+reason, now)
	return []Event{{
		certificatesv1beta1.PodCertificateRequestConditionTypeFailed,
		"PodCertificateRequest " + r.Namespace + "/" + r.Name + " failed, " + because,
	}}
}

// Gone says that a request was deleted. It reports whether that was the one that is waited for.
func (c *Certificate) Gone(request string) bool {
	if c.State != Requested || request != c.Request {
		return false
	}
	c.end(Wanted, "", time.Time{})
	return true
}

// Look does what is due. shown: the watch shows the request.
func (c *Certificate) Look(now time.Time, shown bool) []Event {
	switch {
	case c.State == Failed && !now.Before(c.at.Add(backoff.Retry(afterFailure, c.failures))):
		c.end(Wanted, c.reason, time.Time{})
	case c.State == Fresh && !now.Before(c.Held.RefreshAt),
		c.State == Requested && !shown && !now.Before(c.at.Add(abandonAfter)):
		c.end(Wanted, "", time.Time{})
	case c.State == Requested && !now.Before(c.at.Add(abandonAfter)):
		c.at = now // it is shown, and looked for again later
	}
	if c.Held == nil {
		return nil
	}
	var events []Event
	if !c.overdueTold && !now.Before(c.Held.RefreshAt.Add(overdueAfter)) {
		c.overdueTold = true
		events = append(events, Event{"CertificateOverdueForRefresh", "PodCertificate refresh overdue"})
	}
	if !c.expiredTold && !now.Before(c.Held.Expires) {
		c.expiredTold = true
		events = append(events, Event{"CertificateExpired", "PodCertificate expired"})
	}
	return events
}

// Due is when Look does something next, if nothing else happens; zero for never.
func (c *Certificate) Due() time.Time {
	var due time.Time
	at := func(t time.Time) {
		if due.IsZero() || t.Before(due) {
			due = t
		}
	}
	switch c.State {
	case Fresh:
		at(c.Held.RefreshAt)
	case Failed:
		at(c.at.Add(backoff.Retry(afterFailure, c.failures)))
	case Requested:
		at(c.at.Add(abandonAfter))
	case Reading, Wanted, Denied:
	}
	if c.Held != nil && !c.overdueTold {
		at(c.Held.RefreshAt.Add(overdueAfter))
	}
	if c.Held != nil && !c.expiredTold {
		at(c.Held.Expires)
	}
	return due
}

// Entry is what the pod knows of it. trouble says why no request can be made; empty if one can. An expired certificate
// stays in use as long as there is no other, as in a kubelet.
func (c *Certificate) Entry(r podobjects.Ref, signer, trouble string) podobjects.Entry {
	e := podobjects.Entry{Ref: r}
	switch {
	case c.State == Denied:
		e.State, e.Message = podobjects.Failed, c.reason
	case c.Held != nil:
		e.State, e.Object = podobjects.Found, c.Held
	case trouble != "":
		e.State, e.Message = podobjects.Failed, trouble
	case c.reason != "":
		e.State, e.Message = podobjects.Failed, c.reason
	case c.State == Requested:
		e.Message = fmt.Sprintf("PodCertificateRequest %s/%s is not issued yet: waiting for the signer %s", r.Namespace,
			c.Request, signer)
	}
	return e
}

// Metric is the state as metrics have it (kubelet_podcertificate_states).
func (c *Certificate) Metric(now time.Time) string {
	switch {
	case c.State == Denied:
		return "denied"
	case c.State == Failed:
		return "failed"
	case c.Held == nil:
		return "not_yet_issued"
	case !now.Before(c.Held.Expires):
		return "expired"
	case !now.Before(c.Held.RefreshAt.Add(overdueAfter)):
		return "overdue_for_refresh"
	default:
		return "fresh"
	}
}

func (c *Certificate) hold(held *podspec.IssuedCertificate) {
	c.end(Fresh, "", time.Time{})
	c.Held, c.overdueTold, c.expiredTold = held, false, false
}

// end leaves a state, and its request.
func (c *Certificate) end(next State, reason string, at time.Time) {
	c.State, c.Request, c.key, c.reason, c.at = next, "", podspec.PrivateKey{}, reason, at
}

func (c *Certificate) must(s State) {
	if c.State != s {
		panic(fmt.Sprintf("podcertificate: %s, want %s", c.State, s))
	}
}
