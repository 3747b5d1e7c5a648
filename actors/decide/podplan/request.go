package podplan

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
)

// EnsureImage asks the images actor for the image of a container, by its pull policy, for the
// incarnation with this attempt number.
type EnsureImage struct {
	Container string
	Image     string
	Policy    v1.PullPolicy
	Attempt   uint32
	// Ahead: it is not the container's turn yet. See imagepull.Request.
	Ahead bool
}

// MountVolumes asks the volumes actor to mount all volumes of the pod.
type MountVolumes struct{}

// UnmountVolumes asks the volumes actor to unmount them.
type UnmountVolumes struct{}

// EnsureCgroup tells the resources actor about the pod, and with Make asks it for the pod's cgroup.
type EnsureCgroup struct{ Make bool }

// RemoveCgroup asks the resources actor to remove it.
type RemoveCgroup struct{}

// PrepareClaims asks the claims actor which devices the pod's ResourceClaims give to its containers. With Make the pod
// has no sandbox yet, and drivers prepare the claims first.
type PrepareClaims struct{ Make bool }

// ReleaseClaims tells the claims actor that nothing of the pod uses its claims any more.
type ReleaseClaims struct{}

// NoteRestart asks the pods actor to write down that a container is stopped in order to be
// restarted (RestartNote).
type NoteRestart struct {
	Name  string
	ID    string
	Cause podlife.RestartCause
}

func (a EnsureImage) Lane() Lane  { return Lane{Kind: LaneImage, Name: a.Container} }
func (MountVolumes) Lane() Lane   { return Lane{Kind: LaneVolumes} }
func (UnmountVolumes) Lane() Lane { return Lane{Kind: LaneVolumes} }
func (EnsureCgroup) Lane() Lane   { return Lane{Kind: LaneCgroup} }
func (RemoveCgroup) Lane() Lane   { return Lane{Kind: LaneCgroup} }
func (PrepareClaims) Lane() Lane  { return Lane{Kind: LaneClaims} }
func (ReleaseClaims) Lane() Lane  { return Lane{Kind: LaneClaims} }
func (a NoteRestart) Lane() Lane  { return Lane{Kind: LaneNote, Name: a.ID} }

// images answers at once, and again on each change.
func (a EnsureImage) asked(f *Facts) {
	f.Images.Set(a.Container, imagepull.Status{
		State: imagepull.Pending, Attempt: a.Attempt, Image: a.Image, Ahead: a.Ahead,
	})
}

func (MountVolumes) asked(f *Facts) { f.Volumes = volumeplan.Volumes{State: volumeplan.Pending} }

func (UnmountVolumes) asked(f *Facts) {
	f.Volumes = volumeplan.Volumes{State: volumeplan.Pending, Going: true}
}

func (EnsureCgroup) asked(f *Facts) { f.Cgroup.State = podcgroup.Pending }

func (RemoveCgroup) asked(f *Facts) { f.Cgroup.State, f.Cgroup.Going = podcgroup.Pending, true }

func (PrepareClaims) asked(f *Facts) { f.Claims = &claims.Pod{State: claims.Pending} }

func (ReleaseClaims) asked(f *Facts) { f.Claims = &claims.Pod{State: claims.Going} }

func (a NoteRestart) asked(f *Facts) {
	put(&f.RestartNotes, a.Name, podlife.RestartNote{ID: a.ID, Cause: a.Cause})
}

func (EnsureImage) isAction()    {}
func (MountVolumes) isAction()   {}
func (UnmountVolumes) isAction() {}
func (EnsureCgroup) isAction()   {}
func (RemoveCgroup) isAction()   {}
func (PrepareClaims) isAction()  {}
func (ReleaseClaims) isAction()  {}
func (NoteRestart) isAction()    {}

func (EnsureImage) isRequest()    {}
func (MountVolumes) isRequest()   {}
func (UnmountVolumes) isRequest() {}
func (EnsureCgroup) isRequest()   {}
func (RemoveCgroup) isRequest()   {}
func (PrepareClaims) isRequest()  {}
func (ReleaseClaims) isRequest()  {}
func (NoteRestart) isRequest()    {}
