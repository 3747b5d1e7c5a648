// Package invariants holds what must be true of a node at every instant, whatever
// fails. A Node is fed with everything that happens: a change in the runtime, a call of
// the agent, a version of a pod in the API, a call about the machine, what the agent was
// told. Each rule is a file, numbered as in docs/invariants.md, and looks at one event and
// the model of its pod. Rules know no test, so that scenarios and other harnesses share
// them.
package invariants
