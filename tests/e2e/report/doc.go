// Package report looks at the HTML report of a simulated run as a user does: in a real browser, in a
// light and a dark theme, on a desk and on a phone. What it checks is what is really shown: boxes on
// the screen, colours of pixels, what the browser complains of and asks the network for.
//
// The screenshots are kept below .run/report for people to look at.
package report
