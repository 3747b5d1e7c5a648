package pod

import (
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// ask sends a request of the plan to the actor that serves it.
func (p *pod) ask(ctx *kernel.Context[Message], r podplan.Request) {
	switch r := r.(type) {
	case podplan.EnsureImage:
		p.ensureImage(ctx, imagepull.Request(r))
	case podplan.MountVolumes:
		p.mountVolumes(ctx)
	case podplan.UnmountVolumes:
		p.deps.Unmount(UnmountVolumes{UID: p.uid, Pod: p.want, ReplyTo: ctx.Self()})
	case podplan.EnsureCgroup:
		p.deps.EnsureCgroup(EnsureCgroup{Pod: p.want, Make: r.Make, ReplyTo: ctx.Self()})
	case podplan.RemoveCgroup:
		p.deps.RemoveCgroup(RemoveCgroup{UID: p.uid, ReplyTo: ctx.Self()})
	case podplan.PrepareClaims:
		p.deps.PrepareClaims(PrepareClaims{Pod: p.want, Make: r.Make, ReplyTo: ctx.Self()})
	case podplan.ReleaseClaims:
		p.deps.ReleaseClaims(ReleaseClaims{UID: p.uid, ReplyTo: ctx.Self()})
	case podplan.NoteRestart:
		p.deps.NoteRestart(NoteRestart{UID: p.uid, Container: r.Name, Note: p.facts.RestartNotes[r.Name]})
	}
}
