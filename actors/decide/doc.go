// Package decide is the root of troupe's pure decisions.
//
// A decision takes plain values (what is wanted, what was observed, what time
// it is) and returns plain values (what to do, what to say, when to look
// again). Nothing below this folder reads a clock, draws a random number,
// does I/O, logs, or starts a goroutine: that is what makes a decision a
// table test, and a whole node replayable from its seed.
//
//	observed   what a runtime says there is: the facts the others decide on
//	manifest   bytes → pods, or a problem that names file and field
//	admit      may this pod run here?
//	podlife    syncing → terminating → terminated
//	podplan    desired + observed + now → what to do next
//	podstatus  desired + observed + plan → what users see
//	backoff    how long to wait before the next try
//	imagepull  pull or not, and when again
//	podgc      which dead containers and sandboxes go
//	podobjects which objects of the API a pod uses, and what is known of them
package decide
