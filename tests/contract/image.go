package contract

import (
	"slices"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func testImage(s *suite) {
	s.removeImage(s.Pullable).noError()
	if s.imageStatus(s.Pullable).noError() != nil {
		s.Fatalf("%s was removed and is there", s.Pullable)
	}
	ref := s.pull(s.Pullable).noError()
	if ref == "" {
		s.Fatal("a pull gave no reference")
	}
	byName := s.imageStatus(s.Pullable).noError()
	if byName == nil {
		s.Fatalf("%s was pulled and is not there", s.Pullable)
	}
	if byName.ID == "" || byName.SizeBytes == 0 || len(byName.RepoTags)+len(byName.RepoDigests) == 0 {
		s.Errorf("image %+v lacks an ID, a size or a name", *byName)
	}
	for _, name := range []string{ref, byName.ID} {
		if got := s.imageStatus(name).noError(); got == nil || got.ID != byName.ID {
			s.Errorf("status of %s is %+v, want image %s", name, got, byName.ID)
		}
	}
	all := s.listImages()
	if !slices.ContainsFunc(all, func(i observed.Image) bool { return i.ID == byName.ID }) {
		s.Errorf("the list lacks image %s", byName.ID)
	}
	if !slices.IsSortedFunc(all, func(a, b observed.Image) int { return compare(a.ID, b.ID) }) {
		s.Error("the list is not in order of ID")
	}
	if again := s.pull(s.Pullable).noError(); again != ref {
		s.Errorf("the second pull gave %s, the first %s", again, ref)
	}
	for range 2 { // removing is idempotent
		s.removeImage(s.Pullable).noError()
	}
	if s.imageStatus(s.Pullable).noError() != nil {
		s.Errorf("%s was removed and is there", s.Pullable)
	}
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func testImageMissing(s *suite) {
	s.pull(s.MissingImage).kind(port.ImageNotFound)
	if s.imageStatus(s.MissingImage).noError() != nil {
		s.Errorf("%s is there", s.MissingImage)
	}
}

func testImageInvalidName(s *suite) {
	s.pull("Not/A:Valid:Name").kind(port.InvalidImageName)
}

func testPullTwiceAtOnce(s *suite) {
	s.removeImage(s.Pullable).noError()
	a, b := s.pull(s.Pullable), s.pull(s.Pullable)
	check.Equal(s, a.noError(), b.noError(), "two pulls at once gave")
	s.removeImage(s.Pullable).noError()
}
