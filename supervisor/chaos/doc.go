// Package chaos finds what breaks a node. It runs cases (package plan) on the actors of the
// daemon in a simulated world, holds the rules of supervisor/invariants and a few of its own
// against everything that happens, and says of each case whether they held. A sweep makes a
// case of every single fault at every point of a life, or of every pair; a search makes cases of seeds,
// of one node or of a cluster; a shrinker takes away from a case that breaks a rule what it does not need for that.
//
//	c, err := plan.Parse("create web main=app ready=app; on web Ready: kill-agent")
//	…
//	if r := chaos.Run(c); r.Verdict() == chaos.Violated {
//		fmt.Println(r.Violations[0], chaos.Shrink(ctx, r, time.Minute).Case.Line())
//	}
package chaos
