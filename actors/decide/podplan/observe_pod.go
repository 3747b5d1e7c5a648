package podplan

import "time"

// ObservePod reads all sandboxes and containers of the pod from the runtime.
type ObservePod struct{}

func (ObservePod) Lane() Lane               { return Lane{Kind: LanePod} }
func (ObservePod) About() (name, id string) { return "", "" }
func (ObservePod) Changes() bool            { return false }

func (ObservePod) begun(f *Facts, _ time.Time) {
	f.listing = f.changes
	for _, b := range f.Busy {
		if b.Value.Changes() {
			f.listing |= disturbed
			break
		}
	}
}

func (ObservePod) succeeded(f *Facts, _ Situation, r Result, _ bool) { f.listed(r.View) }
func (ObservePod) failed(*Facts, Problem) string                     { return RuntimeError }

func (ObservePod) isAction() {}
func (ObservePod) isEffect() {}
