package plan

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

const good = `seed 7
no-events
create job main=app sidecar=proxy restart=OnFailure ready=app app.term-exit-code=0
on job Ready +200ms: image job/app to=registry.test/app:2
at 20s: delete job grace=3
fault call StopContainer job/app #1 = slow 500ms
fault msg podset:Wanted - #2 = panic
`

const goodCluster = `seed 3
nodes 3
schedule starve=podset
schedule priorities depth=2
cost *=2ms
deploy web replicas=4 main=app ready=app
create a main=app
backup
on web Ready: image web/app to=registry.test/app:2
kill-agent n2 for=1s
no-answers n3 for=20s
no-watches for=20s
at 1m0s: lose-node n2 for=8m
lose-node n3
drain n1
uncordon n1
replicas web to=2
restore
delete web
fault host LoadCheckpoint - #1 = older
fault host LoadCheckpoint - #2 = lost
fault call StartContainer web/app #3 = fail
`

const goodDevices = `seed 3
devices 4
create a main=app gpus=2 cpus=1
stop-plugin for=5s
on a Ready: break-gpus n1 for=5s
`

const goodCSI = `seed 4
csi attach
create a main=app claim=data
stop-driver for=5s
crash-driver n1
expand claim=data size=2Gi
fault host NodeStageVolume - #1 = lose
fault host NodeStageVolume-asked - #1 = kill
`

// TestParsePrints: a case is printed as it was written, as lines and as one line.
func TestParsePrints(t *testing.T) {
	for _, text := range []string{good, goodCluster, goodDevices, goodCSI} {
		c, err := Parse("# why\n\n" + text)
		if err != nil {
			t.Fatal(err)
		}
		check.Equal(t, c.String(), text, "printed as")
		again, err := Parse(c.Line())
		if err != nil || again.Hash() != c.Hash() {
			t.Errorf("as a line: %v, %s", err, c.Line())
		}
	}
}

// TestExpand: what is drawn can be parsed, and restores, half links, schedules and each operation of a
// cluster are drawn.
func TestExpand(t *testing.T) {
	for name, p := range map[string]Profile{"node": {}, "cluster": Cluster(5)} {
		drawn := map[Verb]int{}
		schedules := map[string]int{}
		for seed := range uint64(500) {
			c := Expand(seed, p)
			if again, err := Parse(c.String()); err != nil || again.Hash() != c.Hash() {
				t.Fatalf("%s, seed %d: %v\n%s", name, seed, err, c)
			}
			for i := range c.Ops {
				drawn[c.Ops[i].Verb]++
			}
			schedules[strings.TrimRight(c.Schedule.String(), "0123456789ms\n")]++
		}
		want := append([]Verb{Backup, StopPlugin, BreakGPUs}, verbs...)
		if p.Nodes > 0 {
			want = append([]Verb{Backup, Deploy, Create, Uncordon}, p.Verbs...)
		}
		for _, v := range want {
			if drawn[v] == 0 {
				t.Errorf("%s: %s is never drawn", name, v)
			}
		}
		if n := schedules[""]; n < 300 || n > 450 || len(schedules) < 10 {
			t.Errorf("%s: the schedules are %v", name, schedules)
		}
	}
}

// TestFaultsWhereTheyCanBe: a checkpoint is lost or older only where one is read.
func TestFaultsWhereTheyCanBe(t *testing.T) {
	points := map[Stream][]Fault{Host: {
		{Stream: Host, Subject: LoadCheckpoint, N: 1}, {Stream: Host, Subject: "UnmountPod", Role: Role{Pod: "a"}, N: 1},
	}}
	lost := 0
	for seed := range uint64(200) {
		for _, f := range Faults(seed, Profile{}, points) {
			if f.Effect.Do == Lost || f.Effect.Do == Older {
				lost++
				check.Fatal(t, check.Is(f.Subject, LoadCheckpoint, "%v", f))
			}
		}
	}
	if lost == 0 {
		t.Error("no checkpoint is lost or older")
	}
}

// TestParseSaysWhatIsWrong: with the line, and all of it.
func TestParseSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"seed x":                              `line 1: "seed x"`,
		"explode":                             `unknown operation "explode"; operations are backup, `,
		"create a":                            "the pod has no main container",
		"create a main=app main=app":          `container name "app" is used twice`,
		"create a main=App":                   `container name "App": a lowercase RFC 1123 label`,
		"create a main=app restart=No":        "want Always, OnFailure or Never",
		"create a main=app app.run=1":         "run",
		"create a main=app colour=red":        `unknown pod option "colour"; options are main=`,
		"delete a":                            "unknown pod a",
		"create a main=app; exit a code=1":    "exit needs a container",
		"create a main=app; exit a/b":         "pod a has no container b; its containers are [app]",
		"create a main=app; delete a x=1":     `delete has no option "x"; its options are [grace]`,
		"create a main=app; on a Up: force a": `unknown state "Up"`,
		"on a Ready force a":                  `missing ": " after the time`,
		"kill-agent for=soon":                 "for=soon",
		"standalone; create a main=app":       "needs an apiserver",
		"fault call X a = fail":               "want: fault STREAM",
		"fault sky X - #1 = fail":             `unknown stream "sky"`,
		"fault call X - #1 = drop":            `a fault of stream call can't be "drop"`,
		"fault call X - #0 = fail":            "counts from #1",
		"fault call X - #1 = fail 1s":         "take a duration",
		"fault call X b #1 = fail":            "unknown pod b",
		"fault host X - #1 = lost":            "only LoadCheckpoint can be lost",
		"restore":                             "restore needs a backup",
		"nodes 0":                             "want 1 node at least",
		"nodes 1000":                          "want 1 to 100",
		"standalone; nodes 2":                 "standalone is not possible with nodes N",
		"kill-agent n2":                       "unknown node n2; nodes are [n1]",
		"drain n1":                            "needs a cluster",
		"nodes 2; drain":                      "drain needs a node",
		"nodes 2; expire n1":                  `expire has no option "n1"`,
		"nodes 2; deploy w main=app":          "deploy needs replicas=N",
		"create a main=app replicas=2":        "replicas=N is only allowed for deploy",
		"nodes 2; deploy w main=app replicas=2 restart=Never":       "a restart= other than Always",
		"nodes 2; deploy w main=app replicas=2; create w main=app":  "w is created as a pod and as a workload",
		"nodes 2; deploy w main=app replicas=2; force w":            "w is a workload, not a pod",
		"nodes 2; create a main=app; replicas a to=2":               "a is a pod, not a workload",
		"nodes 2; deploy w main=app replicas=2; replicas w to=many": "to=many",
		"nodes 2; deploy w main=app replicas=2; replicas w":         "want to=N",
		"create a main=app private=b":                               `the pod has no container "b"; its containers are [app]`,
		"create a main=app private=app secret=no":                   "want yes",
		"create a main=app pull=Often":                              "want Always, IfNotPresent or Never",
		"write a main=app private=app secret=yes":                   "secret= is not allowed for a static pod",
		"nodes 2; deploy w main=app replicas=1 private=app":         "private= is not possible with nodes N",
		"csi all":                                                 "want csi plain or csi attach",
		"nodes 2; csi plain":                                      "csi is not possible with nodes N",
		"standalone; csi plain":                                   "csi is not possible with standalone",
		"stop-driver":                                             "needs a node with a CSI driver",
		"create a main=app claim=c":                               "needs a node with a CSI driver",
		"csi plain; write a main=app claim=c":                     "claim= is not allowed for a static pod",
		"csi plain; create a main=app claim=C":                    "claim name: a lowercase RFC 1123 label",
		"csi plain; expand claim=c":                               "want claim=NAME size=SIZE",
		"csi plain; expand claim=c size=big":                      "size=big",
		"csi plain; fault host UnmountPod - #1 = lose":            "only calls of CSI drivers can lose",
		"csi plain; fault host NodeStageVolume-asked - #1 = fail": "within one there is only kill",
		"devices 0":                                               "want 1 device at least",
		"devices 1000":                                            "want 1 to 100",
		"nodes 2; devices 2":                                      "devices N is not possible with nodes N",
		"stop-plugin":                                             "needs a node with devices",
		"create a main=app gpus=1":                                "needs a node with devices",
		"devices 2; create a main=app cpus=0":                     "want 1 to 255",
		"schedule random":                                         "want: schedule starve=ACTOR",
		"schedule priorities depth=x":                             "invalid syntax",
		"schedule priorities depth=-1":                            "must not be negative",
		"cost podset":                                             "invalid duration",
		"cost podset=2h":                                          "1s at most",
		"cost =2ms":                                               "want: cost ACTOR=DURATION",
	} {
		check.Says(t, check.Err(Parse(text)), want, "%s", text)
	}
	check.Says(t, check.Err(Parse("explode\nimplode")), "line 2", "the second error is missing")
}

// FuzzParse: rubbish gives an error, and what is read is printed so that it is read again.
func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add(goodCluster)
	f.Add("create a main=app; fault host UnmountPod a #1 = hang")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(c.String())
		if err != nil || again.String() != c.String() {
			t.Errorf("%q is printed as %q: %v", text, c.String(), err)
		}
	})
}
