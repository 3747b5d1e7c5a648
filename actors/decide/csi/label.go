package csi

import "github.com/troupe-dev/troupe/actors/decide/isolation"

// A volume has one SELinux label on this node: the mount option context= is one of its file system. It is that of the
// pod for which it was staged first. A pod with another label waits until all pods with that one are gone; then the
// volume is unstaged, and staged with its own.

// wants is the label that a pod needs, empty for none.
func (v *Volume) wants(p *Publication) string {
	if !v.labels || v.Inline {
		return ""
	}
	return p.Spec.Label
}

// otherLabel: the volume has another label than a pod needs that does not have it yet.
func (v *Volume) otherLabel(p *Publication) bool {
	return p.State == None && p.Spec != nil && (v.Staging != None || v.published()) &&
		!isolation.SameSELinuxLabel(v.Label, v.wants(p))
}

// labelFor is the label that it is staged with. What is published keeps the one that it has.
func (v *Volume) labelFor(p *Publication) string {
	if v.published() {
		return v.Label
	}
	return v.wants(p)
}
