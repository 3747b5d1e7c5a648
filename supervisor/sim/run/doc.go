// Package run executes a scenario in a simulated cluster: it performs the steps, checks
// the expectations against the API, records the trace, and computes the summary.
//
//	scenario ──steps──► World, controlplane        API ──watch──► observe ──► expectations, figures, report
//	                       └── time passes, from look to look and from beat to beat ──► trace
package run
