// Package node runs the real `troupe node` on a real containerd, as a user would: a process, a
// directory of manifests, a socket to ask. It knows nothing of the agent's inside; what it reads of
// it is what `troupe pods --json` and `troupe tree --json` print.
//
// Its tests show what the agent must do with pods, bad input, crashes and hung calls. The command
// bench measures with the same parts.
package node
