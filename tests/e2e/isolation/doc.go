// Package isolation has the tests of the first thing that the agent promises: a failure in one pod does
// not affect the others. They run the real agent on the served runtime, with static pods, and ask the
// agent's own timeline what each call has waited for.
package isolation
