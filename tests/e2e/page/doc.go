// Package page looks at the web page of a node, and at the page of a case of troupe
// chaos, as an operator does: in a real
// browser, light and dark, with few pods and with many. That of a real node is
// looked at in tests/e2e/node.
//
// The screenshots are kept below .run/page for people to look at.
package page
