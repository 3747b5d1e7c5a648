package csi

import "time"

// Failure is that of a step, in a row.
type Failure struct {
	Count   int
	Next    time.Time
	Message string
}

// Fail notes why a step failed that has ended, and when it may be tried again.
func (v *Volume) Fail(s Step, message string, next func(count int) time.Time) {
	f := v.Failures[s]
	if f == nil {
		f = &Failure{}
		v.Failures[s] = f
	}
	f.Count++
	f.Message, f.Next = message, next(f.Count)
	if p := v.Targets[s.Target]; s.Target != (Target{}) && (p == nil || s.Op == PublishVolume && p.Want != Wanted) {
		delete(v.Failures, s)
	}
}

// Retry has failed steps tried again at once, because what they may have failed for has changed.
func (v *Volume) Retry() {
	for _, f := range v.Failures { // order-free: each on its own
		f.Next = time.Time{}
	}
}

// Trouble is why a publication is not there, if a step has failed: the step and its message.
func (v *Volume) Trouble(t Target) (Step, string) {
	for _, s := range []Step{{Op: Attachment}, {Op: UnstageVolume}, {Op: StageVolume}, {PublishVolume, t},
		{UnpublishVolume, t}} {
		if f := v.Failures[s]; f != nil {
			return s, f.Message
		}
	}
	return Step{}, ""
}
