// Package arch holds the rules of the repository's structure as tests: which layer may import
// which, what a decision may not do, in what order maps may be walked, and what lies at the top.
// Each rule has its reason beside it, which is what a failing test prints.
package arch
