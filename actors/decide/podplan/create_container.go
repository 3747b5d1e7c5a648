package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// CreateContainer makes one incarnation of a container.
type CreateContainer struct {
	Name           string
	Kind           podspec.Kind
	Attempt        uint32
	SandboxID      string
	SandboxAttempt uint32
	ImageRef       string
	SpecHash       string
	PodIPs         []string
	// Resources are what it is made with, as far as a resize can change them; nil
	// for a pod that was never resized.
	Resources *observed.Resources
	// Placement is where it runs.
	Placement cpus.ContainerPlacement
}

func (a CreateContainer) Lane() Lane               { return Lane{Kind: LaneContainer, Name: a.Name} }
func (a CreateContainer) About() (name, id string) { return a.Name, "" }
func (CreateContainer) Changes() bool              { return true }
func (CreateContainer) begun(*Facts, time.Time)    {}

func (a CreateContainer) succeeded(f *Facts, s Situation, r Result, _ bool) {
	f.changes += birth
	if a.Placement != (cpus.ContainerPlacement{}) {
		put(&f.Places, r.NewID, a.Placement)
	}
	if f.Container(r.NewID) != nil {
		return
	}
	f.View.Containers = append(f.View.Containers, observed.Container{
		ID: r.NewID, SandboxID: a.SandboxID, Pod: s.Ref, Name: a.Name, Attempt: max(a.Attempt, r.Attempt),
		State: observed.ContainerCreated, ImageRef: r.ImageRef, SpecHash: a.SpecHash,
		CreatedAt: s.Now, Detailed: true, Resources: a.Resources,
	})
	f.View.Sort()
}

func (a CreateContainer) failed(f *Facts, p Problem) string {
	if p.NoImage {
		f.lostImages(a.Name)
	}
	if p.Invalid {
		return ConfigError
	}
	return "CreateContainerError"
}

func (CreateContainer) isAction() {}
func (CreateContainer) isEffect() {}
