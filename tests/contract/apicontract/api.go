package apicontract

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// API runs the suite for port.API. open is called once per test and cleans up
// after itself with t.Cleanup.
func API(t *testing.T, open func(t *testing.T) Subject) {
	type test struct {
		name string
		run  func(*suite)
	}
	tests := []test{
		{"ContextEnded", testContextEnded},

		{"Write/GenerateName", testGenerateName},
		{"Write/GivenIsNotChanged", testGivenIsNotChanged},
		{"Write/UpdateUnconditional", testUpdateUnconditional},
		{"Write/UpdateWithAnotherUID", testUpdateAnotherUID},
		{"Write/NothingToChange", testNothingToChange},
		{"Write/LeaseRenew", testLeaseRenew},
		{"Write/Finalizers", testFinalizers},

		{"Status/NotByUpdate", testStatusNotByUpdate},
		{"Status/NothingElseByStatusPatch", testStatusOnly},
		{"Status/NothingOfItByPatch", testPatchLeavesStatus},
		{"Status/NodeIsCreatedWithIt", testNodeStatusOnCreate},
		{"Status/TwoWriters", testStatusTwoWriters},

		{"Patch/MapsAndLists", testPatchMapsAndLists},
		{"Patch/FromAnOldVersion", testPatchFromOld},
		{"Patch/Emptied", testPatchEmptied},
		{"Patch/OfTheNewestOnly", testPatchNewest},

		{"Pod/Defaults", testPodDefaults},
		{"Pod/Generation", testPodGeneration},
		{"Pod/Immutable", testPodImmutable},
		{"Pod/Mutable", testPodMutable},
		{"Pod/DeleteGracefully", testDeleteGracefully},
		{"Pod/GraceIsOnlyShortened", testGraceShortened},
		{"Pod/DeleteUnscheduled", testDeleteUnscheduled},
		{"Pod/DeleteTerminal", testDeleteTerminal},
		{"Pod/DeleteNow", testDeleteNow},
		{"Pod/DeleteWithFinalizer", testDeletePodWithFinalizer},
		{"Pod/StatusWhileDeleted", testStatusWhileDeleted},

		{"Watch/ListsAndFollows", testWatch},
		{"Watch/NodeName", testWatchNodeName},
		{"Watch/Phase", testWatchPhase},
		{"Watch/Namespace", testWatchNamespace},
		{"Watch/AllNamespaces", testWatchAllNamespaces},
		{"Watch/Many", testWatchMany},
		{"Watch/EndsWithContext", testWatchEnds},
		{"Watch/Broken", testWatchBroken},
		{"Watch/BrokenAndExpired", testWatchExpired},

		{"Token/ForPod", testToken},
		{"Token/Refused", testTokenRefused},

		{"Concurrent", testConcurrent},
	}
	for _, k := range kinds {
		tests = append(tests, test{kindName(k.kind), func(s *suite) { testKind(s, k.make) }})
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			s := &suite{T: t, Subject: open(t)}
			random := make([]byte, 5)
			check.Value(rand.Read(random))(t)
			s.name = fmt.Sprintf("c-%x", random)
			c.run(s)
		})
	}
}

// testContextEnded: a call with an ended context answers, and soon.
func testContextEnded(s *suite) {
	ctx, cancel := s.context()
	cancel()
	o := s.configMap("o")
	begin(s, "Get", func(done func(port.APIObject, error)) {
		s.API.Get(ctx, port.APIKeyOf(o), done)
	}).fails(port.Canceled)
	begin(s, "Create", func(done func(port.APIObject, error)) {
		s.API.Create(ctx, o, done)
	}).fails(port.Canceled)
	s.removeLater(o)
	var ended int
	s.API.Watch(ctx, port.Selection{Kind: port.ConfigMapKind, Namespace: s.Namespace}, func(c port.APIChange) {}, func(error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		ended++
	})
	s.eventually("a watch with an ended context ends", func() bool { return ended > 0 })
	s.pass(moment)
	s.eventually("a watch ends once", func() bool { return ended == 1 })
}

// testConcurrent: calls that are under way at once each get their own answer,
// and of writers that read the same version one wins.
func testConcurrent(s *suite) {
	const n = 20
	made := s.made(s.configMap("o"))
	updates := make([]*pending[port.APIObject], n)
	creates := make([]*pending[port.APIObject], n)
	for i := range n {
		updates[i] = s.update(with(made, label("writer", fmt.Sprint(i))))
		c := s.configMap(fmt.Sprint("c", i))
		s.removeLater(c)
		creates[i] = s.create(c)
	}
	won := 0
	for i := range n {
		if o, err := updates[i].result(); err == nil {
			won++
			check.Equal(s, o.GetLabels()["writer"], fmt.Sprint(i), "writer %d got the object of writer", i)
		} else if port.KindOf(err) != port.Conflict {
			s.Errorf("writer %d: %v, want a conflict", i, err)
		}
		check.Equal(s, creates[i].ok().GetName(), s.configMap(fmt.Sprint("c", i)).Name, "creation %d got", i)
	}
	check.Equal(s, won, 1, "%d of %d writers of one version won, want 1", won, n)
}
