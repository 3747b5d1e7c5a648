package imagepull

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// failures are the failed pulls of a pod. What the last one was made with is not tried again before its backoff is
// over.
type failures struct {
	Failures
	with map[Credential]bool
	// all are those of which it is known that with has all.
	all map[purse]bool
	// inTurn: one of them was no pull ahead of a container's turn.
	inTurn bool
}

// attempt is what a pull has failed with, and why.
type attempt struct {
	with Credential
	err  string
}

// wholeTexts is how many of these texts are kept as they are, shortText what is kept of the others, in bytes.
const wholeTexts, shortText = 500, 100

// failedWith notes why a pull failed with one credential. There may be tens of thousands, each with a text of its own.
func (i *Image) failedWith(c Credential, text string) {
	if n := len(i.tried); n > 0 && i.tried[n-1].err == text {
		text = i.tried[n-1].err // as a rule all are the same
	} else if n >= wholeTexts {
		text = strings.Clone(strings.ToValidUTF8(text[:min(len(text), shortText)], ""))
	}
	i.tried = append(i.tried, attempt{c, text})
}

// Why is what a container is told of a pull that failed: what its own credentials got, and which of its plugins failed.
func (i *Image) Why() func(*Waiter) string {
	known := map[purse]string{}
	return func(w *Waiter) string {
		p := w.purse()
		text, asked := known[p]
		if !asked {
			own := map[Credential]bool{}
			for _, c := range w.credentials() {
				own[c] = true
			}
			var texts []string
			for _, t := range i.tried {
				if own[t.with] {
					texts = append(texts, t.err)
				}
			}
			text = PullError(texts)
			known[p] = text
		}
		return strings.Join(append([]string{text}, w.Found.Failures...), "; ")
	}
}

// Fail begins the backoff of the pod of a waiter for whom a pull has failed, and gives the reason for people. down: no
// registry was asked, so the wait does not grow.
func (i *Image) Fail(w *Waiter, text string, down bool, e *Env) (reason string) {
	reason, message := PullFailure(i.Name, text)
	f := i.failures[w.Pod.UID]
	if !e.Now.Before(f.RetryAt(e.Backoff)) || f.with == nil {
		f.with, f.all = map[Credential]bool{}, map[purse]bool{}
	}
	if !f.all[w.purse()] { // of each of its containers
		f.all[w.purse()] = true
		for _, c := range w.credentials() {
			f.with[c] = true
		}
	}
	f.inTurn = f.inTurn || !w.Ask.Ahead
	if !f.At.Equal(e.Now) { // else another container of the pod waits as well
		if down || e.Now.Sub(f.At) > 2*e.Backoff.Max { // or it is too long ago to count
			f.Count = 0
		}
		f.Failures = f.Failed(reason, message, e.Now)
	}
	i.failures[w.Pod.UID] = f
	w.since = time.Time{}
	return reason
}

// Status is why a waiter that is held up waits, and when that changes: from what happened to the back-off, and then to
// the next try. In between it is looked whether the image was loaded by other means.
func (i *Image) Status(w *Waiter, e *Env) (reason, message string, until time.Time) {
	reason, message, until = i.failures[w.Pod.UID].Status(e.Backoff, i.Name, e.Now)
	if look := e.Now.Add(e.LookEvery); w.Ask.Policy != v1.PullAlways && (until.IsZero() || look.Before(until)) {
		until = look
	}
	return reason, message, until
}

// heldUp reports whether a container waits for the backoff of its pod: it failed with all that the container may pull
// with. A pull secret may have come.
func (i *Image) heldUp(w *Waiter, e *Env) bool {
	f := i.failures[w.Pod.UID]
	if !e.Now.Before(f.RetryAt(e.Backoff)) {
		return false
	}
	p := w.purse()
	if f.all[p] {
		return true
	}
	for _, c := range w.credentials() {
		if !f.with[c] {
			return false
		}
	}
	f.all[p] = true
	return true
}

// usable are the credentials with which a container may pull now: all that it has, or in the backoff of its pod those
// that it did not have when it failed.
func (i *Image) usable(w *Waiter, e *Env) []Credential {
	all := w.credentials()
	f := i.failures[w.Pod.UID]
	if !e.Now.Before(f.RetryAt(e.Backoff)) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Credential) bool { return f.with[c] })
}
