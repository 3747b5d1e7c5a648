package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Shared is what the tests of a package have in common. Each thing is made once, when a test first wants it, and goes when
// all tests have run.
type Shared struct {
	// Name is the package's.
	Name string
	// Plane says how the control plane is made, but for its Dir.
	Plane ControlPlaneConfig
	// Own: it is not that of [TakeControlPlane], because tests stop its programs.
	Own bool
	// Begun, if not nil, is called when there is a control plane. Its context ends with the tests.
	Begun func(ctx context.Context, repository string)
	// Dir is a directory with a short path, as sockets need it. It is there while the tests run.
	Dir string

	ctx                      context.Context
	troupe, raced, csiDriver once[string]
	registry                 once[*Registry]
	plane                    once[*ControlPlane]
}

// once is a value that is made once, or why it could not be.
type once[T any] struct {
	sync.Once
	value T
	err   error
}

func (o *once[T]) get(ctx context.Context, how func(ctx context.Context, repository string) (T, error)) (T, error) {
	o.Do(func() {
		var repository string
		if repository, o.err = Repository(); o.err == nil {
			o.value, o.err = how(ctx, repository)
		}
	})
	return o.value, o.err
}

// Run runs the tests of a package and returns the code to exit with.
func (s *Shared) Run(m *testing.M) (code int) {
	SetParallel()
	var err error
	if s.Dir, err = os.MkdirTemp("", s.Name+"-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(s.Dir)
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	defer func() {
		if s.plane.value == nil {
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
		defer cancel()
		if err := s.plane.value.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
			code = max(code, 1)
		}
		if code != 0 {
			fmt.Fprintln(os.Stderr, s.plane.value.LogTails(2000))
		}
	}()
	return m.Run()
}

// Troupe is the path of the agent.
func (s *Shared) Troupe() (string, error) {
	return s.troupe.get(s.ctx, func(ctx context.Context, repository string) (string, error) {
		return BuildTroupe(ctx, repository, false)
	})
}

// Raced is the path of an agent with the race detector.
func (s *Shared) Raced() (string, error) {
	return s.raced.get(s.ctx, func(ctx context.Context, repository string) (string, error) {
		return BuildTroupe(ctx, repository, true)
	})
}

// CSIDriver is the path of the program of package csidriver.
func (s *Shared) CSIDriver() (string, error) { return s.csiDriver.get(s.ctx, BuildCSIDriver) }

// Registry serves the images of [Registry.PushDemoImages].
func (s *Shared) Registry() (*Registry, error) {
	return s.registry.get(s.ctx, func(ctx context.Context, repository string) (*Registry, error) {
		r, err := NewRegistry()
		if err != nil {
			return nil, err
		}
		return r, r.PushDemoImages(ctx, repository)
	})
}

// ControlPlane is the one of most tests.
func (s *Shared) ControlPlane() (*ControlPlane, error) {
	return s.plane.get(s.ctx, func(ctx context.Context, repository string) (*ControlPlane, error) {
		config, start := s.Plane, TakeControlPlane
		config.Dir = filepath.Join(s.Dir, "plane")
		if s.Own {
			start = StartControlPlane
		}
		p, err := start(ctx, config)
		if s.Begun != nil {
			s.Begun(ctx, repository)
		}
		return p, err
	})
}
