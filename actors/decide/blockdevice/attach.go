package blockdevice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Session is one iSCSI session of this machine, with one connection, as the kernel shows it (/sys/class/iscsi_host).
type Session struct {
	// Host is the number of its SCSI host.
	Host   int
	Target string
	// Iface is the interface of open-iscsi; empty if the kernel does not know.
	Iface string
	// Portals are the portal that it was made for, and the one that it is with: a target may send elsewhere.
	Portals []string
	// Disks are the block devices of its LUNs, by number.
	Disks map[string]Disk
}

// Disk is a block device.
type Disk struct {
	// Name is sda, Multipath dm-0 if multipathd has made it a part of that.
	Name, Multipath string
}

// Of are the sessions that reach a LUN, in the order of its portals.
func (d *ISCSI) Of(sessions []Session) (out []Session) {
	for _, p := range d.Portals {
		if s := d.At(p, sessions); s != nil && !slices.ContainsFunc(out, func(o Session) bool { return o.Host == s.Host }) {
			out = append(out, *s)
		}
	}
	return out
}

// At is the session with a portal; nil if there is none.
func (d *ISCSI) At(portal string, sessions []Session) *Session {
	for i := range sessions {
		s := &sessions[i]
		if s.Target == d.IQN && (s.Iface == d.Iface || s.Iface == "") && hasPortal(s.Portals, portal) {
			return s
		}
	}
	return nil
}

// Action is what is done next to attach a LUN.
//
//	 ┌── no session ──► Login ──┐
//	 │                          ▼
//	Look ── no device ──► Scan ► Wait ──► … ──► Use
//	                                └─ too long, no portal ──► Fail
type Action struct {
	Kind   ActionKind
	Portal string // Login
	Host   int    // Scan
	Device string // Use: its name, as in /dev
	Why    string // Fail
}

// ActionKind is what an Action does.
type ActionKind uint8

const (
	// Login makes a session with a portal.
	Login ActionKind = iota + 1
	// Scan has the kernel look for the LUN at a SCSI host.
	Scan
	// Wait looks again after a moment.
	Wait
	// Use: the device is there.
	Use
	// Fail: it can't be attached now.
	Fail
)

// String is the kind as a word.
func (k ActionKind) String() string {
	return [...]string{"", "Login", "Scan", "Wait", "Use", "Fail"}[k]
}

const (
	// deviceWait is how long a device may take after a scan, multipathWait how long multipathd may take then. They are
	// those of a kubelet.
	deviceWait    = 30 * time.Second
	multipathWait = 10 * time.Second
)

// Progress is what has been tried to attach a LUN. The zero value is the beginning.
type Progress struct {
	// failed are portals that no session could be made with, and why.
	failed map[string]string
	// scanned are the hosts that the LUN was looked for at, and since when.
	scanned map[int]time.Duration
	// found is when the first device was there without multipath.
	found time.Duration
}

// Failed notes that a login failed.
func (p *Progress) Failed(portal string, err error) {
	if p.failed == nil {
		p.failed = map[string]string{}
	}
	p.failed[portal] = err.Error()
}

// Next decides what is done next. now is the time since the beginning. An Action is noted as done.
//
// A portal that can't be reached does not hold up one that can: with several portals, any device will do when each
// portal has been tried. With several portals the multipath device is waited for, as by a kubelet; where no multipathd
// makes one, a single path is used.
func (d *ISCSI) Next(sessions []Session, p *Progress, now time.Duration) Action {
	for _, portal := range d.Portals {
		if _, failed := p.failed[portal]; !failed && d.At(portal, sessions) == nil {
			return Action{Kind: Login, Portal: portal}
		}
	}
	mine := d.Of(sessions)
	var disks []Disk
	waiting := false
	for _, s := range mine {
		disk, there := s.Disks[d.LUN]
		since, scanned := p.scanned[s.Host]
		switch {
		case there:
			disks = append(disks, disk)
		case !scanned:
			if p.scanned == nil {
				p.scanned = map[int]time.Duration{}
			}
			p.scanned[s.Host] = now
			return Action{Kind: Scan, Host: s.Host}
		case now-since < deviceWait:
			waiting = true
		}
	}
	for _, disk := range disks {
		if disk.Multipath != "" {
			return Action{Kind: Use, Device: disk.Multipath}
		}
	}
	if waiting {
		return Action{Kind: Wait}
	}
	if len(disks) == 0 {
		return Action{Kind: Fail, Why: d.why(mine, p)}
	}
	if p.found == 0 {
		p.found = max(now, 1)
	}
	if len(d.Portals) > 1 && len(disks) > 1 && now-p.found < multipathWait {
		return Action{Kind: Wait}
	}
	return Action{Kind: Use, Device: disks[0].Name}
}

// why says why there is no device.
func (d *ISCSI) why(mine []Session, p *Progress) string {
	var all []string
	for _, portal := range d.Portals {
		if why := p.failed[portal]; why != "" {
			all = append(all, fmt.Sprintf("portal %s: %s", portal, why))
		}
	}
	if len(mine) > 0 {
		all = append(all, fmt.Sprintf("logged in, but the target shows no LUN %s within %s: check that it has one, and that "+
			"this initiator may use it", d.LUN, deviceWait))
	}
	return cmp.Or(strings.Join(all, "; "), "no session, and no reason is known")
}
