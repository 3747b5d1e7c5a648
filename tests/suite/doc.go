// Package suite decides what a test run starts, and runs it: which packages have the race detector, which results
// may come from Go's cache, which tests of tests/e2e belong to which tier, and which tests a change needs. All of it
// is computed from the source. Command cmd is what the tasks of Taskfile.yml call.
//
// docs/decisions/0073 has the criteria.
package suite
