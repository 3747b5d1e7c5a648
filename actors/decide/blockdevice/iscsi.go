package blockdevice

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// ISCSI is one LUN of an iSCSI target, and how this machine reaches it. Its encoding is that of the file iscsi.json of
// a kubelet, which is found there on a changeover in either direction.
type ISCSI struct {
	// VolName is the name of the volume in the pod, or of the PersistentVolume.
	VolName string
	// Portals are addresses with ports. Each is there once, and there is at least one.
	Portals []string
	IQN     string `json:"Iqn"`
	LUN     string `json:"Lun"`
	// Iface is the interface of open-iscsi that sessions have. It is made of InitIface if InitiatorName is set.
	InitIface, Iface string
	InitiatorName    string
}

// CHAP is what a target wants to know of the initiator: keys of open-iscsi and their values. It has no way into a text.
type CHAP struct {
	Discovery, Session map[string]string
}

// String says that there is something.
func (CHAP) String() string { return "(CHAP secrets)" }

// GoString is String.
func (c CHAP) GoString() string { return c.String() }

// defaultPort is that of a portal without one (RFC 7143, section 4.1).
const defaultPort = "3260"

// ISCSISource is what the two sources of the API (core/v1 ISCSIVolumeSource, ISCSIPersistentVolumeSource) have in
// common, with the namespace of the secret.
type ISCSISource struct {
	v1.ISCSIVolumeSource
	// SecretNamespace is that of SecretRef.
	SecretNamespace string
}

// ISCSIOf is the source of a volume of a pod, or of the PersistentVolume that is bound to its claim; nil if it is none.
// Whether one of a claim is read-only, the claim in the pod says and not the PersistentVolume.
func ISCSIOf(namespace string, v *v1.Volume, pv *v1.PersistentVolume) *ISCSISource {
	switch {
	case pv != nil && pv.Spec.ISCSI != nil:
		s := pv.Spec.ISCSI
		out := &ISCSISource{ISCSIVolumeSource: v1.ISCSIVolumeSource{
			TargetPortal: s.TargetPortal, IQN: s.IQN, Lun: s.Lun, ISCSIInterface: s.ISCSIInterface, FSType: s.FSType,
			Portals: s.Portals, DiscoveryCHAPAuth: s.DiscoveryCHAPAuth, SessionCHAPAuth: s.SessionCHAPAuth,
			InitiatorName: s.InitiatorName,
		}}
		if r := s.SecretRef; r != nil {
			out.SecretRef = &v1.LocalObjectReference{Name: r.Name}
			out.SecretNamespace = r.Namespace
			if out.SecretNamespace == "" {
				out.SecretNamespace = namespace
			}
		}
		return out
	case pv == nil && v.ISCSI != nil:
		return &ISCSISource{ISCSIVolumeSource: *v.ISCSI, SecretNamespace: namespace}
	default:
		return nil
	}
}

// NewISCSI makes a LUN of its source. name is that of the volume or of the PersistentVolume.
func NewISCSI(name string, s *ISCSISource) (*ISCSI, error) {
	d := &ISCSI{VolName: name, IQN: s.IQN, LUN: strconv.Itoa(int(s.Lun)), InitIface: s.ISCSIInterface}
	seen := map[string]bool{}
	for _, p := range slices.Concat([]string{s.TargetPortal}, s.Portals) {
		portal, err := portalOf(p)
		if err != nil {
			return nil, err
		}
		if bare := withoutZone(portal); !seen[bare] {
			seen[bare] = true
			d.Portals = append(d.Portals, portal)
		}
	}
	if d.InitIface == "" {
		d.InitIface = "default"
	}
	d.Iface = d.InitIface
	if s.InitiatorName != nil && *s.InitiatorName != "" {
		d.InitiatorName = *s.InitiatorName
		d.Iface = d.Portals[0] + ":" + name
	}
	for _, field := range [...][2]string{{"iqn", d.IQN}, {"iscsiInterface", d.InitIface}} {
		value := field[1]
		if value == "" || strings.ContainsAny(value[:1], "-.") || strings.ContainsAny(value, "/ \t\n\x00") {
			return nil, fmt.Errorf("iscsi: %s %q can't be one", field[0], value)
		}
	}
	if strings.ContainsAny(d.InitiatorName, "\n\x00") || strings.HasPrefix(d.InitiatorName, "-") {
		return nil, fmt.Errorf("iscsi: initiatorName %q can't be one", d.InitiatorName)
	}
	if s.Lun < 0 || s.Lun > 255 { // API validation
		return nil, fmt.Errorf("iscsi: lun %d must be between 0 and 255", s.Lun)
	}
	return d, nil
}

// portalOf is a portal with its port, else as it was written: names of directories have it so. It is an IP address
// (core/v1 ISCSIVolumeSource). With a host name a kubelet logs in, but does not find the session by it.
func portalOf(s string) (string, error) {
	p := s
	if !strings.Contains(p, ":") || strings.HasPrefix(p, "[") && strings.HasSuffix(p, "]") {
		p += ":" + defaultPort
	}
	if _, err := netip.ParseAddrPort(p); err != nil || strings.ContainsAny(p, "/ \t\n\x00") {
		return "", fmt.Errorf("iscsi: targetPortal %q must be an IP address, or address:port, with brackets around an IPv6 "+
			"address; a host name can't be one", s)
	}
	return p, nil
}

// Portal is a portal as open-iscsi writes it: addresses can be written in several ways. What is none stays.
func Portal(s string) string {
	p, err := netip.ParseAddrPort(s)
	if err != nil {
		return s
	}
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()).String()
}

// hasPortal reports whether a portal is among some.
func hasPortal(all []string, portal string) bool {
	portal = withoutZone(portal)
	return slices.ContainsFunc(all, func(s string) bool { return withoutZone(s) == portal })
}

// withoutZone is a portal as the kernel shows it, without the zone of an IPv6 address.
func withoutZone(portal string) string {
	if p, err := netip.ParseAddrPort(portal); err == nil {
		return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port()).String()
	}
	return portal
}

// chapKeys are the keys of a secret (core/v1 SecretTypeISCSICHAP), for discovery and for a session.
var chapKeys = [2][]string{
	{
		"discovery.sendtargets.auth.username", "discovery.sendtargets.auth.password",
		"discovery.sendtargets.auth.username_in", "discovery.sendtargets.auth.password_in",
	},
	{
		"node.session.auth.username", "node.session.auth.password", "node.session.auth.username_in",
		"node.session.auth.password_in",
	},
}

// NewCHAP takes of a secret what the source asks for. Without CHAP, the secret is not needed.
func NewCHAP(s *ISCSISource, secret map[string][]byte) (c CHAP, err error) {
	for i, wanted := range [2]bool{s.DiscoveryCHAPAuth, s.SessionCHAPAuth} {
		if !wanted {
			continue
		}
		authmethod := "discovery.sendtargets.auth.authmethod"
		if i == 1 {
			authmethod = "node.session.auth.authmethod"
		}
		set := map[string]string{authmethod: "CHAP"}
		for _, key := range chapKeys[i] {
			value := string(secret[key])
			if strings.ContainsAny(value, "\n\x00") {
				return CHAP{}, fmt.Errorf("iscsi: %s in the secret has a line break: remove it", key)
			}
			if value != "" {
				set[key] = value
			}
		}
		if i == 0 {
			c.Discovery = set
		} else {
			c.Session = set
		}
	}
	return c, nil
}

// NeedsSecret reports whether the volume can't be brought up without its secret.
func (s *ISCSISource) NeedsSecret() bool {
	return s.SecretRef != nil && s.SecretRef.Name != "" && (s.DiscoveryCHAPAuth || s.SessionCHAPAuth)
}

// String names the LUN for people.
func (d *ISCSI) String() string {
	return "iSCSI target " + d.IQN + " (LUN " + d.LUN + ") at " + strings.Join(d.Portals, ", ")
}

// Dir is where the LUN is mounted for all pods, below plugins/kubernetes.io, as a kubelet has it.
func (d *ISCSI) Dir() string {
	return ISCSIDir + "/iface-" + d.Iface + "/" + d.Portals[0] + "-" + d.IQN + "-lun-" + d.LUN
}

// iscsiOfDir is what the name of a directory says: the first portal, target, LUN and interface. parts are the elements
// of its path.
func iscsiOfDir(parts []string) (*ISCSI, error) {
	if len(parts) != 3 || !strings.HasPrefix(parts[1], "iface-") {
		return nil, errors.New("it is not <plugin>/iface-<interface>/<portal>-<iqn>-lun-<number>")
	}
	name, lun, ok := cutLast(parts[2], "-lun-")
	if _, err := strconv.ParseUint(lun, 10, 16); !ok || err != nil {
		return nil, errors.New("it has no LUN")
	}
	for _, kind := range []string{"-iqn.", "-eui.", "-naa."} {
		portal, rest, ok := strings.Cut(name, kind)
		if ok && portal != "" && rest != "" {
			iface := strings.TrimPrefix(parts[1], "iface-")
			return &ISCSI{Portals: []string{portal}, IQN: kind[1:] + rest, LUN: lun, InitIface: iface, Iface: iface}, nil
		}
	}
	return nil, errors.New("it has no portal, or no iqn")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// Own reports whether the interface was made for this volume alone.
func (d *ISCSI) Own() bool { return d.InitiatorName != "" && d.Iface == d.Portals[0]+":"+d.VolName }

// Unused are the portals that no other volume on this machine needs: sessions with them may end, but those that were
// found. others are the disks that are in use besides this one. One that is known in part may need all portals.
func (u *Used) Unused(others []Used) (out []string) {
	for _, p := range u.ISCSI.Portals {
		needs := func(o Used) bool { return u.ISCSI.sameTarget(o) && (o.Partial || hasPortal(o.ISCSI.Portals, p)) }
		if !hasPortal(u.Found, p) && !slices.ContainsFunc(others, needs) {
			out = append(out, p)
		}
	}
	return out
}

// FoundOf are the portals with sessions that neither this agent nor a kubelet has made: there is one, and no disk in
// use is reached by it, or only such as have found it themselves. The machine may have booted from it, or an
// administrator or a CSI driver may use it.
func (d *ISCSI) FoundOf(sessions []Session, others []Used) (out []string) {
	for _, p := range d.Portals {
		made := func(o Used) bool {
			return d.sameTarget(o) && (o.Partial || hasPortal(o.ISCSI.Portals, p)) && !hasPortal(o.Found, p)
		}
		if d.At(p, sessions) != nil && !slices.ContainsFunc(others, made) {
			out = append(out, p)
		}
	}
	return out
}

// Shared reports whether another volume in use has the same disk.
func (d *ISCSI) Shared(others []Used) bool {
	return slices.ContainsFunc(others, func(o Used) bool { return d.sameTarget(o) && o.ISCSI.LUN == d.LUN })
}

// sameTarget reports whether another disk is reached by the same sessions.
func (d *ISCSI) sameTarget(o Used) bool {
	return o.ISCSI != nil && o.ISCSI.IQN == d.IQN && o.ISCSI.Iface == d.Iface
}
