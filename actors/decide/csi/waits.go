package csi

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
)

// waits is why nothing can be brought up, empty if it can.
func (v *Volume) waits(env Env, p *Publication) string {
	switch {
	case !env.Registered:
		return fmt.Sprintf("driver name %s not found in the list of registered CSI drivers", v.Driver)
	case env.Driver == nil:
		return "the CSIDriver objects of the apiserver are not known yet"
	case p.Spec.refused(env.Driver) != "":
		return p.Spec.refused(env.Driver)
	case !env.Driver.Attach || v.Inline || v.Attached:
		return ""
	case !env.Reported:
		return "status.volumesInUse of the Node does not name it yet"
	case !env.Attached:
		return fmt.Sprintf("it is not attached to this node (status.volumesAttached, VolumeAttachment of CSI driver %s)",
			v.Driver)
	}
	return ""
}

// Waits says what a publication waits for, in words for people; empty if it is Ready, or if nothing is known.
func (v *Volume) Waits(t Target, env Env) string {
	p := v.Targets[t]
	if p == nil {
		return ""
	}
	if p.Want == Released {
		if !env.Registered {
			return fmt.Sprintf("volume %q can't be unpublished: CSI driver %s is not registered on this node", t.Name, v.Driver)
		}
		return v.calls(fmt.Sprintf("volume %q is being unpublished", t.Name), env.Driver)
	}
	if v.Ready(t) || p.Want != Wanted {
		return ""
	}
	if v.published() && v.otherLabel(p) {
		return isolation.SELinuxConflict(t.Name, v.Label, v.wants(p))
	}
	if r := v.rival(t); r != "" {
		return fmt.Sprintf("volume uses the ReadWriteOncePod access mode and is already in use by another pod (UID %s)", r)
	}
	if why := v.waits(env, p); why != "" {
		return why
	}
	return v.calls("", env.Driver)
}

// calls adds the call that goes on.
func (v *Volume) calls(text string, d *Driver) string {
	if v.Busy == nil {
		return text
	}
	if text != "" {
		text += ": "
	}
	walks := v.Walks(*v.Busy, d)
	if walks && v.Walk.Reports > 0 {
		return text + v.Walk.Of(v.Targets[v.Busy.Target].Spec.Group)
	}
	text += fmt.Sprintf("CSI driver %s has not answered %s of volume %s", v.Driver, v.Busy.Op, v.Handle)
	if walks {
		text += OrWalks(v.Targets[v.Busy.Target].Spec.Group)
	}
	return text
}

// InUse reports whether the Node has to say that it uses the volume, before it is attached and until nothing of it is
// left (status.volumesInUse).
func (v *Volume) InUse() bool { return !v.Inline && !v.Over() }
