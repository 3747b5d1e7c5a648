// Package run makes a run of a simulated world out of a scenario: it lets the
// steps happen, holds the expectations against what the API shows, records the
// trace, and sums up.
//
//	scenario ──steps──► World, controlplane        API ──watch──► observe ──► expectations, figures, report
//	                       └── time passes, from look to look and from beat to beat ──► trace
package run
