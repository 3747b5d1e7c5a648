package chaos

import (
	"os"
	"strconv"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// clusterLives go through what a cluster does to its nodes.
var clusterLives = map[string]string{
	"rolling update": "nodes 3; deploy web replicas=6 main=app ready=app grace=2; on web Ready: image web/app to=registry.test/app:2",
	"scale":          "nodes 2; deploy web replicas=2 main=app; on web Ready: replicas web to=5; on web Ready +5s: replicas web to=0",
	"node loss":      "nodes 3; deploy web replicas=5 main=app; on web Ready: lose-node n2 for=8m",
	"node is gone":   "nodes 3; deploy web replicas=5 main=app; create a main=app; on web Ready: lose-node n1",
	"drain":          "nodes 3; deploy web replicas=5 main=app; on web Ready: drain n1; at 1m: uncordon n1; drain n2",
	"apiserver restored": "nodes 3; deploy web replicas=4 main=app; on web Ready: backup; on web Ready +1s: " +
		"image web/app to=registry.test/app:2; create a main=app; at 1m: restore",
	"a lost node restored": "seed 1706; nodes 5; deploy c replicas=4 main=app; at 1m: backup; lose-node n4; at 1m20s: restore",
	"a workload goes":      "nodes 2; deploy web replicas=3 main=app volume=data; on web Ready: delete web; on web Gone: write s main=app",
}

// TestCluster: without faults they hold every rule.
func TestCluster(t *testing.T) {
	for name, text := range clusterLives {
		t.Run(name, func(t *testing.T) {
			r := Run(parse(t, text))
			check.Equal(t, r.Verdict(), Held, "%s: %v %v", r.Verdict(), r.Violations, r.Unreached)
			t.Log(r.Messages, r.Simulated, r.Writes, r.Changes)
		})
	}
}

// TestClusterSeeds runs the cases of some seeds on five nodes. TROUPE_CASES=N runs so many.
func TestClusterSeeds(t *testing.T) {
	n := uint64(75)
	if full() {
		n = 300
	}
	if actortest.Raced || testing.Short() {
		n = 10
	}
	if s := os.Getenv("TROUPE_CASES"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil || n == 0 {
			t.Fatalf("TROUPE_CASES=%s: %v", s, err)
		}
	}
	var tally Summary
	Seeds(t.Context(), 1, n, 0, plan.Cluster(5), func(r *Result) bool {
		tally.Add(r)
		return true
	})
	fail(t, &tally)
}
