package netdisks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// Exit statuses of iscsiadm (iscsi_err.h of open-iscsi).
const (
	noSession     = 2
	sessionExists = 15
	noRecords     = 21
)

// Sessions are the iSCSI sessions of this machine. The kernel tells, not iscsid, which may not run.
func (m Machine) Sessions() (out []blockdevice.Session, err error) {
	hosts, err := names("host", m.Sys, "class/iscsi_host")
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		number, err := strconv.Atoi(strings.TrimPrefix(host, "host"))
		if err != nil {
			continue
		}
		device := filepath.Join(m.Sys, "class/iscsi_host", host, "device")
		sessions, err := names("session", device)
		if err != nil {
			return nil, err
		}
		for _, name := range sessions {
			s, err := m.session(number, filepath.Join(device, name), name)
			if err != nil {
				return nil, err
			}
			if len(s.Portals) > 0 {
				out = append(out, s)
			}
		}
	}
	return out, nil
}

func (m Machine) session(host int, dir, name string) (blockdevice.Session, error) {
	s := blockdevice.Session{Host: host, Disks: map[string]blockdevice.Disk{}}
	s.Target = text(dir, "iscsi_session", name, "targetname")
	if s.Iface = text(dir, "iscsi_session", name, "ifacename"); s.Iface == "<NULL>" || s.Iface == "(null)" {
		s.Iface = ""
	}
	connections, err := names("connection", dir)
	if err != nil {
		return s, err
	}
	for _, c := range connections {
		at := filepath.Join(dir, c, "iscsi_connection", c)
		for _, prefix := range []string{"persistent_", ""} {
			address, port := text(at, prefix+"address"), text(at, prefix+"port")
			if portal := net.JoinHostPort(address, port); address != "" && !slices.Contains(s.Portals, portal) {
				s.Portals = append(s.Portals, portal)
			}
		}
	}
	targets, err := names("target", dir)
	if err != nil {
		return s, err
	}
	for _, target := range targets {
		luns, err := names(strconv.Itoa(host)+":", dir, target)
		if err != nil {
			return s, err
		}
		for _, lun := range luns {
			disks, err := names("", dir, target, lun, "block")
			if err != nil {
				return s, err
			}
			if len(disks) > 0 {
				s.Disks[lun[strings.LastIndex(lun, ":")+1:]] = blockdevice.Disk{Name: disks[0], Multipath: m.multipath(disks[0])}
			}
		}
	}
	return s, nil
}

// AttachISCSI attaches a LUN, and gives its device. It is idempotent, and uses sessions that there are.
func (m Machine) AttachISCSI(ctx context.Context, d *blockdevice.ISCSI, chap blockdevice.CHAP) (string, error) {
	began := time.Now()
	var p blockdevice.Progress
	for ready := false; ; {
		sessions, err := m.Sessions()
		if err != nil {
			return "", err
		}
		switch a := d.Next(sessions, &p, time.Since(began)); a.Kind {
		case blockdevice.Login:
			if !ready {
				if err := m.makeIface(ctx, d); err != nil {
					return "", err
				}
				ready = true
			}
			if err := m.login(ctx, d, blockdevice.Portal(a.Portal), chap); err != nil {
				if hostcall.KindOf(err) == port.InvalidConfig {
					return "", err // it won't be better at the next portal
				}
				p.Failed(a.Portal, err)
				continue
			}
			if err := m.shown(ctx, d, a.Portal); err != nil {
				p.Failed(a.Portal, err)
			}
		case blockdevice.Scan:
			// For one LUN, not for all: that would bring up disks that nobody removes.
			if err := m.scan("host"+strconv.Itoa(a.Host), "0 0 "+d.LUN); err != nil {
				return "", err
			}
		case blockdevice.Wait:
			if err := wait(ctx); err != nil {
				return "", err
			}
		case blockdevice.Use:
			return filepath.Join(m.Dev, a.Device), nil
		case blockdevice.Fail:
			return "", fmt.Errorf("%s can't be attached: %s", d, a.Why)
		}
	}
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

// shown waits until the kernel shows the session that was made.
func (m Machine) shown(ctx context.Context, d *blockdevice.ISCSI, portal string) error {
	const most = 5 * time.Second
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		sessions, err := m.Sessions()
		if err != nil {
			return err
		}
		if d.At(portal, sessions) != nil {
			return nil
		}
		if wait(limited) != nil {
			return fmt.Errorf("logged in, but the kernel shows no session of interface %s", d.Iface)
		}
	}
}

// login makes a session with one portal, in the steps of a kubelet. The record of a portal that fails is removed.
func (m Machine) login(ctx context.Context, d *blockdevice.ISCSI, portal string, chap blockdevice.CHAP) error {
	discovery := []string{"-m", "discoverydb", "-t", "sendtargets", "-p", portal, "-I", d.Iface}
	node := []string{"-m", "node", "-p", portal, "-T", d.IQN, "-I", d.Iface}
	step := func(of []string, args ...string) (int, error) {
		_, status, err := run(ctx, "iscsiadm", slices.Concat(of, args)...)
		return status, err
	}
	if _, err := step(discovery, "-o", "new"); err != nil {
		return err
	}
	unlock, err := m.lockPortal(portal)
	if err != nil {
		return err
	}
	defer unlock()
	if len(chap.Discovery) > 0 {
		err = m.record(filepath.Join("send_targets", comma(portal), "st_config"), chap.Discovery)
	}
	if err == nil {
		_, err = step(discovery, "--discover")
	}
	if err != nil {
		step(discovery, "-o", "delete") //nolint:errcheck // the failure before it is what matters
		return err
	}
	// Without it a login brings up all LUNs of the target. Old versions do not have it.
	step(node, "-o", "update", "-n", "node.session.scan", "-v", "manual") //nolint:errcheck // see above
	if len(chap.Session) > 0 {
		err = m.nodeRecord(d, portal, chap.Session)
	}
	if err == nil {
		var status int
		if status, err = step(node, "--login"); status == sessionExists {
			err = nil
		}
	}
	if err != nil {
		step(node, "-o", "delete") //nolint:errcheck // the failure before it is what matters
		return err
	}
	// A machine that boots must not wait for volumes of pods.
	step(node, "-o", "update", "-n", "node.startup", "-v", "manual") //nolint:errcheck // a kubelet goes on as well
	return nil
}

// lockPortal keeps a portal until unlock is called or this process ends: a discovery makes the records of all targets
// of the portal anew, and another's CHAP secret must not get lost before its login.
func (m Machine) lockPortal(portal string) (unlock func(), err error) {
	for _, dir := range m.Records {
		f, err := os.Open(filepath.Join(dir, "send_targets", comma(portal)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		if err != nil {
			return nil, fmt.Errorf("lock the records of portal %s: %w", portal, err)
		}
		return func() { _ = f.Close() }, nil // nothing was written
	}
	return func() {}, nil // records are elsewhere: only CHAP needs to know where
}

// comma is a portal as in names of records.
func comma(portal string) string {
	host, port, err := net.SplitHostPort(portal)
	if err != nil {
		return portal
	}
	return host + "," + port
}

// nodeRecord sets keys in the record of a target at a portal. Its directory ends with the number of the portal group.
func (m Machine) nodeRecord(d *blockdevice.ISCSI, portal string, set map[string]string) error {
	for _, dir := range m.Records {
		groups, err := names(comma(portal)+",", dir, "nodes", d.IQN)
		if err != nil {
			return err
		}
		for _, group := range groups {
			file := filepath.Join("nodes", d.IQN, group, d.Iface)
			if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
				return m.record(file, set)
			}
		}
	}
	return m.record(filepath.Join("nodes", d.IQN, comma(portal)+",<group>", d.Iface), set)
}

// record sets keys in a record of open-iscsi, as blockdevice.Record says. The file is replaced as a whole.
func (m Machine) record(name string, set map[string]string) error {
	for _, dir := range m.Records {
		file := filepath.Join(dir, name)
		old, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		const mode = 0o600
		return durable.WriteAt(file, []byte(blockdevice.Record(string(old), set)), mode, durable.Whole)
	}
	return hostcall.Failf(port.InvalidConfig, "open-iscsi has no record %s in %s: CHAP secrets are written there, "+
		"because other processes can read what iscsiadm is called with", name, strings.Join(m.Records, " or "))
}

// setting is a line of `iscsiadm -m iface -o show`.
var setting = regexp.MustCompile(`(?m)^(iface\.\S+) = (.+?)\s*$`)

// makeIface makes the interface of a volume with an initiator name of its own: a copy of another, with that name.
func (m Machine) makeIface(ctx context.Context, d *blockdevice.ISCSI) error {
	if !d.Own() {
		return nil
	}
	shown, _, err := run(ctx, "iscsiadm", "-m", "iface", "-I", d.InitIface, "-o", "show")
	if err != nil {
		return err
	}
	iface := []string{"-m", "iface", "-I", d.Iface}
	if _, status, err := run(ctx, "iscsiadm", slices.Concat(iface, []string{"-o", "new"})...); err != nil &&
		status != sessionExists {
		return err
	}
	settings := [][2]string{{"iface.initiatorname", d.InitiatorName}}
	for _, s := range setting.FindAllStringSubmatch(shown, -1) {
		if s[1] != "iface.iscsi_ifacename" && s[1] != "iface.initiatorname" && !strings.Contains(s[2], "<empty>") {
			settings = append(settings, [2]string{s[1], s[2]})
		}
	}
	for _, s := range settings {
		args := slices.Concat(iface, []string{"-o", "update", "-n", s[0], "-v", s[1]})
		if _, status, err := run(ctx, "iscsiadm", args...); err != nil && status != sessionExists {
			return err
		}
	}
	return nil
}

// DetachISCSI takes away the disks of a LUN, and ends the sessions that no other volume needs, with their records. A
// session that was there before, and one that has a disk which something else uses, stays as it is. left are the
// devices that are used so. It is idempotent.
func (m Machine) DetachISCSI(
	ctx context.Context, u *blockdevice.Used, others []blockdevice.Used,
) (left []string, err error) {
	d := u.ISCSI
	sessions, err := m.Sessions()
	if err != nil {
		return nil, err
	}
	if !d.Shared(others) {
		var disks []blockdevice.Disk
		for _, s := range d.Of(sessions) {
			if disk, there := s.Disks[d.LUN]; there {
				disks = append(disks, disk)
			}
		}
		if left, err = m.release(ctx, disks); err != nil {
			return nil, err
		}
	}
	ended := 0
	for _, portal := range u.Unused(others) {
		used, err := m.usedIn(d.At(portal, sessions))
		if err != nil {
			return nil, err
		}
		if len(used) > 0 {
			left = append(left, used...)
			continue
		}
		ended++
		for _, do := range [][]string{{"--logout"}, {"-o", "delete"}} {
			args := slices.Concat([]string{"-m", "node", "-p", blockdevice.Portal(portal), "-T", d.IQN, "-I", d.Iface}, do)
			if _, status, err := run(ctx, "iscsiadm", args...); err != nil && status != noSession && status != noRecords {
				return nil, err
			}
		}
	}
	if d.Own() && ended == len(d.Portals) {
		_, status, err := run(ctx, "iscsiadm", "-m", "iface", "-I", d.Iface, "-o", "delete")
		if err != nil && status != noSession && status != noRecords {
			return nil, err
		}
	}
	slices.Sort(left)
	return slices.Compact(left), nil
}

// usedIn are the disks of a session that something uses.
func (m Machine) usedIn(s *blockdevice.Session) (out []string, err error) {
	if s == nil {
		return nil, nil
	}
	for _, lun := range slices.Sorted(maps.Keys(s.Disks)) {
		name := s.Disks[lun].Name
		used, err := m.used(name)
		if err != nil {
			return nil, err
		}
		if used {
			out = append(out, name)
		}
	}
	return out, nil
}
