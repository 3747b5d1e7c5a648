package csi

// MayBeExhausted: the volume waits for its attachment, and its driver keeps the number of volumes that a node takes up
// to date (nodeAllocatableUpdatePeriodSeconds of its CSIDriver). Then a full node is a reason to end the pod: it is
// scheduled elsewhere by the new number (KEP-4876).
func (v *Volume) MayBeExhausted(env Env) bool {
	return env.Registered && env.Driver != nil && env.Driver.Attach && env.Driver.InfoPeriod > 0 && !v.Inline &&
		!v.Attached && !env.Attached && v.first() != nil
}
