package chaos_test

import (
	"context"
	"fmt"
	"log"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// The agent is killed while a container is made, and the pod is Ready all the same.
func ExampleRun() {
	c, err := plan.Parse("create web main=app ready=app; fault call CreateContainer web/app #1 = kill")
	if err != nil {
		log.Fatal(err)
	}
	r := chaos.Run(c)
	fmt.Println(r.Verdict(), r.Changes > 0, len(r.Reached))
	// Output: held true 1
}

// Cases of one's own kind: jobs with a sidecar, and a runtime that forgets to answer.
func ExampleSeeds() {
	p := plan.Profile{
		Pods: 2, Ops: 4, Faults: 3,
		Words:   [][]string{{"sidecar=proxy"}, {"restart=Never", "app.run-for=2s"}},
		Verbs:   []plan.Verb{plan.Delete, plan.Restart},
		Effects: []plan.EffectKind{plan.Lose},
	}
	violated := 0
	chaos.Seeds(context.Background(), 1, 20, 0, p, func(r *chaos.Result) bool {
		if r.Verdict() == chaos.Violated {
			violated++
		}
		return true
	})
	fmt.Println(violated, "violated")
	// Output: 0 violated
}
