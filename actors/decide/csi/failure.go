package csi

import "time"

// Fail notes why a step failed that has ended.
func (v *Volume) Fail(s Step, message string, now time.Time) {
	v.Failures[s] = v.Failures[s].Failed(now, message)
	if p := v.Targets[s.Target]; s.Target != (Target{}) && (p == nil || s.Op == PublishVolume && p.Want != Wanted) {
		delete(v.Failures, s)
	}
}

// Retry has failed steps tried again at once, because what they may have failed for has changed.
func (v *Volume) Retry() {
	for s, f := range v.Failures { // order-free: each on its own
		f.At = time.Time{}
		v.Failures[s] = f
	}
}

// Trouble is why a publication is not there, if a step has failed: the step and its message.
func (v *Volume) Trouble(t Target) (Step, string) {
	for _, s := range []Step{{Op: Attachment}, {Op: UnstageVolume}, {Op: StageVolume}, {PublishVolume, t},
		{UnpublishVolume, t}} {
		if f, failed := v.Failures[s]; failed {
			return s, f.Message
		}
	}
	return Step{}, ""
}
