package chaos_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

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

// A profile of your own: jobs with a sidecar, and a runtime that forgets to answer. What is found is
// shrunk, and its page is written.
func ExampleSeeds() {
	ctx := context.Background()
	p := plan.Profile{
		Pods: 2, Ops: 4, Faults: 3,
		Words:   [][]string{{"sidecar=proxy"}, {"restart=Never", "app.run-for=2s"}},
		Verbs:   []plan.Verb{plan.Delete, plan.Restart},
		Effects: []plan.EffectKind{plan.Lose},
	}
	var all chaos.Summary
	chaos.Seeds(ctx, 1, 20, 0, p, func(r *chaos.Result) bool {
		all.Add(r)
		if r.Verdict() == chaos.Violated {
			fmt.Println(r.Violations[0], chaos.Shrink(ctx, r, time.Minute).Case)
		}
		return true
	})
	fmt.Println(all.Cases, "cases,", all.Violated, "violated")
	// Output: 20 cases, 0 violated
}

// The page of a case shows what happened, pod by pod.
func ExampleWritePage() {
	c, err := plan.Parse("create web main=app; on web Ready: lose-task web/app; delete web")
	if err != nil {
		log.Fatal(err)
	}
	r := chaos.Run(c, chaos.WithStory())
	var page strings.Builder
	if err := chaos.WritePage(&page, r, "", nil); err != nil {
		log.Fatal(err)
	}
	last := r.Story.Entries[len(r.Story.Entries)-1]
	fmt.Println(last.What, "after", last.At.Round(time.Minute), strings.HasPrefix(page.String(), "<!DOCTYPE html>"))
	// Output: L01 after 40m0s true
}
