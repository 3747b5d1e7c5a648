package contract

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// CheckpointsSubject is one implementation of port.Checkpoints.
type CheckpointsSubject struct {
	Passing
	Checkpoints port.Checkpoints
}

// Checkpoints runs the suite for port.Checkpoints. open is called once per test.
func Checkpoints(t *testing.T, open func(t *testing.T) CheckpointsSubject) {
	for name, test := range map[string]func(*suite, port.Checkpoints){
		"AsSaved": testCheckpointAsSaved, "InOrder": testCheckpointInOrder, "SetAside": testCheckpointSetAside,
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			test(c.suite(t), c.Checkpoints)
		})
	}
}

func loadFrom(s *suite, c port.Checkpoints, name string) []byte {
	s.Helper()
	return begin(s, "Load "+name, func(done func([]byte, error)) { c.Load(context.Background(), name, done) }).noError()
}

func saveTo(s *suite, c port.Checkpoints, name string, data []byte) *pending[struct{}] {
	return beginErr(s, "Save "+name, func(done func(error)) { c.Save(context.Background(), name, data, done) })
}

// testCheckpointSetAside: what is set aside is gone under its name, a second time too, and can be saved again.
func testCheckpointSetAside(s *suite, c port.Checkpoints) {
	for range 2 {
		saveTo(s, c, "a", []byte("damaged")).noError()
		where := begin(s, "SetAside a", func(done func(string, error)) { c.SetAside(context.Background(), "a", done) }).noError()
		if where == "" {
			s.Errorf("nobody is told where it is")
		}
		if got := loadFrom(s, c, "a"); got != nil {
			s.Errorf("after it was set aside there is %q", got)
		}
	}
}

// testCheckpointAsSaved: what is absent is nil; what was saved comes back byte by byte,
// also if no reader could make sense of it; each name has its own.
func testCheckpointAsSaved(s *suite, c port.Checkpoints) {
	if got := loadFrom(s, c, "a"); got != nil {
		s.Errorf("an absent one has %q", got)
	}
	for _, data := range [][]byte{[]byte(`{"long":"text"}`), []byte("{"), {0, 255, '\n'}, {}} {
		saveTo(s, c, "a", data).noError()
		if got := loadFrom(s, c, "a"); !bytes.Equal(got, data) || got == nil {
			s.Errorf("saved was %q, loaded is %q", data, got)
		}
	}
	if got := loadFrom(s, c, "b"); got != nil {
		s.Errorf("another one has %q", got)
	}
	// The caller may use its memory again.
	data := []byte("mine")
	p := saveTo(s, c, "b", data)
	p.noError()
	copy(data, "xxxx")
	got := loadFrom(s, c, "b")
	check.Equal(s, string(got), "mine", "after a change by the caller it has")
	copy(got, "yyyy")
	check.Equal(s, string(loadFrom(s, c, "b")), "mine", "after a change by a reader it has")
}

// testCheckpointInOrder: of two that are saved at about the same time, the later counts.
func testCheckpointInOrder(s *suite, c port.Checkpoints) {
	first, second := saveTo(s, c, "a", []byte("one")), saveTo(s, c, "a", []byte("two"))
	first.noError()
	second.noError()
	check.Equal(s, string(loadFrom(s, c, "a")), "two", "it has")
}

// ManifestsSubject is one implementation of port.Manifests.
type ManifestsSubject struct {
	Passing
	Manifests port.Manifests
	// Write puts a file into the directory, Remove takes it out.
	Write  func(name, data string)
	Remove func(name string)
	// Answer is what the manifest URL answers from now on; Fail makes it answer with an
	// error.
	Answer func(body string)
	Fail   func()
}

type manifestsSuite struct {
	suite
	ManifestsSubject
}

// Manifests runs the suite for port.Manifests. open is called once per test.
func Manifests(t *testing.T, open func(t *testing.T) ManifestsSubject) {
	for name, test := range map[string]func(*manifestsSuite){
		"Files": testManifestFiles, "Watch": testManifestWatch, "URL": testManifestURL,
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			test(&manifestsSuite{suite: *m.suite(t), ManifestsSubject: m})
		})
	}
}

func (s *manifestsSuite) wantFiles(want ...string) {
	s.Helper()
	files := begin(&s.suite, "Read", func(done func([]port.ManifestFile, error)) { s.Manifests.Read(context.Background(), done) }).noError()
	ok := len(files) == len(want)/2
	for i, f := range files {
		ok = ok && filepath.Base(f.Name) == want[2*i] && string(f.Data) == want[2*i+1] && f.Err == nil
	}
	if !ok {
		s.Errorf("read is %+v, want %q", files, want)
	}
}

func testManifestFiles(s *manifestsSuite) {
	s.wantFiles()
	s.Write("b.yaml", "b1")
	s.Write("a.yaml", "a1")
	s.wantFiles("a.yaml", "a1", "b.yaml", "b1")
	s.Write("b.yaml", "b2")
	s.Remove("a.yaml")
	s.wantFiles("b.yaml", "b2")
}

// testManifestWatch: changes are told until the context ends, and of files that return that they were gone.
func testManifestWatch(s *manifestsSuite) {
	ctx, cancel := s.context()
	ended := make(chan struct{})
	told := make(chan []string, 100)
	s.Manifests.Watch(ctx, func(again []string) { told <- again }, func(error) { close(ended) })
	next := func(what string, change func()) {
		s.Helper()
		for len(told) > 0 {
			<-told
		}
		change()
		eventually(&s.suite, what, told)
	}
	if s.suite.Step == nil { // it tells once that it has begun, soon after the call
		eventually(&s.suite, "the watch begins", told)
	}
	next("a new file is told", func() { s.Write("a.yaml", "a1") })
	next("a change is told", func() { s.Write("a.yaml", "a2") })
	next("a removal is told", func() { s.Remove("a.yaml") })
	s.Write("a.yaml", "a3")
	s.Remove("a.yaml")
	s.Write("a.yaml", "a3")
	for back := false; !back; {
		back = slices.ContainsFunc(eventually(&s.suite, "a return is told", told), func(name string) bool {
			return filepath.Base(name) == "a.yaml"
		})
	}
	cancel()
	eventually(&s.suite, "the watch ends", ended)
}

type fetched struct {
	data string
	same bool
}

func (s *manifestsSuite) fetch(fresh bool) *pending[fetched] {
	return begin(&s.suite, "Fetch", func(done func(fetched, error)) {
		s.Manifests.Fetch(context.Background(), fresh, func(data []byte, same bool, err error) { done(fetched{string(data), same}, err) })
	})
}

func testManifestURL(s *manifestsSuite) {
	s.Answer("one")
	for _, step := range []struct {
		do    func()
		fresh bool
		want  fetched
	}{
		{nil, false, fetched{"one", false}},
		{nil, false, fetched{"", true}},
		{nil, true, fetched{"one", false}},
		{func() { s.Answer("two") }, false, fetched{"two", false}},
		{nil, false, fetched{"", true}},
	} {
		if step.do != nil {
			step.do()
		}
		check.Equal(s, s.fetch(step.fresh).noError(), step.want, "fetched")
	}
	s.Fail()
	failed := make(chan error, 1)
	s.Manifests.Fetch(context.Background(), false, func(_ []byte, _ bool, err error) { failed <- err })
	check.Fails(s, eventually(&s.suite, "Fetch", failed), "an answer of the server that is an error is none of Fetch")
	s.Answer("two")
	if got := s.fetch(true).noError(); got.data != "two" {
		s.Errorf("after the error fetched is %+v", got)
	}
}
