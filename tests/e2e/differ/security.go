package differ

import (
	v1 "k8s.io/api/core/v1"
)

// securityFeatures are who a pod's processes are, and what they may do.
var securityFeatures = []feature{
	{"pod-user", 15, func(d *draft) { d.podSecurity().RunAsUser = new(one[int64](d, 0, 1000, 1234)) }},
	{"pod-group", 10, func(d *draft) { d.podSecurity().RunAsGroup = new(one[int64](d, 0, 3000)) }},
	{"pod-non-root", 6, func(d *draft) { d.podSecurity().RunAsNonRoot = new(true) }},
	{"groups", 12, func(d *draft) { d.podSecurity().SupplementalGroups = one(d, []int64{5000}, []int64{4000, 1000, 4000}) }},
	{"groups-policy", 6, func(d *draft) {
		d.podSecurity().SupplementalGroupsPolicy = new(one(d, v1.SupplementalGroupsPolicyStrict, v1.SupplementalGroupsPolicyMerge))
	}},
	{"fs-group", 15, func(d *draft) {
		d.podSecurity().FSGroup = new(one[int64](d, 2000, 0, 1000))
		if d.flip() {
			d.podSecurity().FSGroupChangePolicy = new(one(d, v1.FSGroupChangeOnRootMismatch, v1.FSGroupChangeAlways))
		}
	}},
	{"pod-seccomp", 12, func(d *draft) { d.podSecurity().SeccompProfile = d.seccomp() }},
	{"pod-selinux", 4, func(d *draft) { d.podSecurity().SELinuxOptions = &v1.SELinuxOptions{Level: "s0:c1,c2", Type: "mine_t"} }},
	{"user", 12, func(d *draft) { d.pickSecurity().RunAsUser = new(one[int64](d, 0, 1000, 77)) }},
	{"group", 8, func(d *draft) { d.pickSecurity().RunAsGroup = new(one[int64](d, 0, 88)) }},
	{"non-root", 6, func(d *draft) { d.pickSecurity().RunAsNonRoot = new(d.IntN(3) > 0) }},
	{"privileged", 6, func(d *draft) { d.pickSecurity().Privileged = new(true) }},
	{"capabilities", 15, func(d *draft) {
		d.pickSecurity().Capabilities = one(d,
			&v1.Capabilities{Drop: []v1.Capability{"ALL"}, Add: []v1.Capability{"NET_BIND_SERVICE", "CHOWN"}},
			&v1.Capabilities{Add: []v1.Capability{"NET_ADMIN", "SYS_TIME"}},
			&v1.Capabilities{Add: []v1.Capability{"SYS_ADMIN"}, Drop: []v1.Capability{"MKNOD"}},
			&v1.Capabilities{Drop: []v1.Capability{"KILL", "SETUID"}})
	}},
	{"read-only", 12, func(d *draft) { d.pickSecurity().ReadOnlyRootFilesystem = new(d.IntN(4) > 0) }},
	{"escalation", 10, func(d *draft) { d.pickSecurity().AllowPrivilegeEscalation = new(d.IntN(4) == 0) }},
	{"seccomp", 8, func(d *draft) { d.pickSecurity().SeccompProfile = d.seccomp() }},
	{"selinux", 3, func(d *draft) {
		d.pickSecurity().SELinuxOptions = &v1.SELinuxOptions{User: "u", Role: "r", Type: "t", Level: "s0"}
	}},
	{"proc-mount", 6, func(d *draft) { d.pickSecurity().ProcMount = new(v1.UnmaskedProcMount) }},
}

func (d *draft) seccomp() *v1.SeccompProfile {
	if d.IntN(8) == 0 {
		return &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: new("missing.json")}
	}
	return &v1.SeccompProfile{Type: one(d, v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeUnconfined)}
}
