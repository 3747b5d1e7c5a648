// Package report writes the HTML report of a simulated run: one file that needs nothing but a
// browser. All is drawn here, as SVG, so that it can be read without scripts; the script in it adds
// a cross-hair. It knows nothing of the simulation: the caller fills in [Data].
//
//	Data ──Validate──► sampling.go       fewer bins, rows and bars, with the same sums
//	                   page, heat, events   numbers → texts and places on axes
//	                   write.go          ──► report.html.tmpl, .css, .js ──► one file
//
// Texts stay at their size where drawings are stretched: an axis is HTML, laid by per cent over an
// SVG without text.
package report
