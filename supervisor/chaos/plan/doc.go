// Package plan has cases of the chaos harness as data: what is done to a node, and what
// goes wrong. A case has a text form with one line for each operation and each fault, so
// that it can be kept in a file, given as one argument of a command, and shrunk. What it
// names are roles (pod a, container app of a, the second StopContainer of it), never IDs or
// numbers of messages, so that it outlives changes of the code.
//
//	seed 7
//	create job main=app restart=OnFailure app.term-exit-code=0
//	on job Running +200ms: image job/app app:2
//	at 20s: delete job
//	fault call StopContainer job/app #1 = hang
//	fault host UnmountPod job #1 = fail
package plan
