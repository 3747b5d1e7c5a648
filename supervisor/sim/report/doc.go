// Package report has what the HTML report of a simulated run shows. It knows nothing of the
// simulation: whoever has the numbers fills in [Data].
package report
