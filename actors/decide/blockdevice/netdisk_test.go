package blockdevice

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

const iqn = "iqn.2003-01.org.example:disk"

func source(change ...func(*v1.ISCSIVolumeSource)) *ISCSISource {
	s := v1.ISCSIVolumeSource{TargetPortal: "10.0.0.1", IQN: iqn, Lun: 2, ISCSIInterface: "default"}
	for _, f := range change {
		f(&s)
	}
	return &ISCSISource{ISCSIVolumeSource: s, SecretNamespace: "ns"}
}

func TestNewISCSI(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1.ISCSIVolumeSource)
		dir    string // or what the error says
		bad    bool
	}{
		{name: "port of its own", change: func(s *v1.ISCSIVolumeSource) { s.TargetPortal = "10.0.0.1:860" }, dir: "iscsi/iface-default/10.0.0.1:860-" + iqn + "-lun-2"},
		{name: "default port", change: func(*v1.ISCSIVolumeSource) {}, dir: "iscsi/iface-default/10.0.0.1:3260-" + iqn + "-lun-2"},
		{name: "IPv6", change: func(s *v1.ISCSIVolumeSource) { s.TargetPortal = "[fd00::1]" }, dir: "iscsi/iface-default/[fd00::1]:3260-" + iqn + "-lun-2"},
		{name: "no interface", change: func(s *v1.ISCSIVolumeSource) { s.ISCSIInterface = "" }, dir: "iscsi/iface-default/10.0.0.1:3260-" + iqn + "-lun-2"},
		{name: "initiator", change: func(s *v1.ISCSIVolumeSource) { s.InitiatorName = new("iqn.x:me") }, dir: "iscsi/iface-10.0.0.1:3260:data/10.0.0.1:3260-" + iqn + "-lun-2"},
		{name: "path in iqn", change: func(s *v1.ISCSIVolumeSource) { s.IQN = "iqn.x/../../y" }, dir: "iqn", bad: true},
		{name: "option as iqn", change: func(s *v1.ISCSIVolumeSource) { s.IQN = "--logout" }, dir: "iqn", bad: true},
		{name: "path in interface", change: func(s *v1.ISCSIVolumeSource) { s.ISCSIInterface = "../x" }, dir: "iscsiInterface", bad: true},
		{name: "no portal", change: func(s *v1.ISCSIVolumeSource) { s.TargetPortal = "" }, dir: "targetPortal", bad: true},
		{name: "option as portal", change: func(s *v1.ISCSIVolumeSource) { s.TargetPortal = "--help" }, dir: "targetPortal", bad: true},
		{name: "IPv6 without brackets", change: func(s *v1.ISCSIVolumeSource) { s.TargetPortal = "fd00::1" }, dir: "targetPortal", bad: true},
		{name: "IPv6 without brackets, with port", change: func(s *v1.ISCSIVolumeSource) { s.TargetPortal = "fd00::1:3260" }, dir: "targetPortal", bad: true},
		{name: "host name", change: func(s *v1.ISCSIVolumeSource) { s.TargetPortal = "disks.example.org:3260" }, dir: "a host name can't be one", bad: true},
		{name: "host name without port", change: func(s *v1.ISCSIVolumeSource) { s.Portals = []string{"disks"} }, dir: "a host name can't be one", bad: true},
		{name: "path in zone", change: func(s *v1.ISCSIVolumeSource) { s.TargetPortal = "[fe80::1%../x]:3260" }, dir: "targetPortal", bad: true},
		{name: "IPv6 written long", change: func(s *v1.ISCSIVolumeSource) { s.TargetPortal = "[FD00:0::1]" }, dir: "iscsi/iface-default/[FD00:0::1]:3260-" + iqn + "-lun-2"},
		{name: "bad port", change: func(s *v1.ISCSIVolumeSource) { s.Portals = []string{"10.0.0.2:x"} }, dir: "targetPortal", bad: true},
		{name: "negative LUN", change: func(s *v1.ISCSIVolumeSource) { s.Lun = -1 }, dir: "lun -1", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := NewISCSI("data", source(c.change))
			if c.bad {
				if err == nil || !strings.Contains(err.Error(), c.dir) {
					t.Fatalf("error %v, want one that says %q", err, c.dir)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			check.Equal(t, d.Dir(), c.dir, "directory")
			used, err := OfDir(d.Dir())
			if err != nil {
				t.Fatal(err)
			}
			back := used.ISCSI
			if !used.Partial || back.IQN != d.IQN || back.LUN != d.LUN || back.Iface != d.Iface || back.Portals[0] != d.Portals[0] {
				t.Errorf("read back: %+v, %v, want %+v", back, err, d)
			}
		})
	}
	d, err := NewISCSI("data", source(func(s *v1.ISCSIVolumeSource) { s.Portals = []string{"10.0.0.2", "10.0.0.1:3260"} }))
	if err != nil || !slices.Equal(d.Portals, []string{"10.0.0.1:3260", "10.0.0.2:3260"}) {
		t.Errorf("portals %v, %v: want each once", d, err)
	}
	for _, dir := range []string{"iscsi/x", "nfs/iface-default/a-iqn.x-lun-1", "fc/iface-default/a-iqn.x-lun-1", "fc/lun-1", "fc/a-lun-b", "iscsi/iface-default/a-iqn.x-lun-y", "iscsi/iface-default/a-lun-1"} {
		if d, err := OfDir(dir); err == nil {
			t.Errorf("%s was read as %s", dir, d.Dir())
		}
	}
}

func TestCHAP(t *testing.T) {
	secret := map[string][]byte{
		"node.session.auth.username": []byte("me"), "node.session.auth.password": []byte("hush"),
		"discovery.sendtargets.auth.username": []byte("you"), "other": []byte("x"),
	}
	s := source(func(s *v1.ISCSIVolumeSource) {
		s.SessionCHAPAuth, s.SecretRef = true, &v1.LocalObjectReference{Name: "chap"}
	})
	if !s.NeedsSecret() {
		t.Error("no secret is needed")
	}
	c, err := NewCHAP(s, secret)
	if err != nil || len(c.Discovery) != 0 || len(c.Session) != 3 || c.Session["node.session.auth.authmethod"] != "CHAP" || c.Session["node.session.auth.password"] != "hush" {
		t.Errorf("got %d and %d keys, %v", len(c.Discovery), len(c.Session), err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, c); strings.Contains(text, "hush") {
			t.Errorf("%s shows the password: %s", format, text)
		}
	}
	s.SessionCHAPAuth, s.DiscoveryCHAPAuth = false, true
	if c, err := NewCHAP(s, secret); err != nil || len(c.Session) != 0 || c.Discovery["discovery.sendtargets.auth.username"] != "you" {
		t.Errorf("discovery: %v %v", c.Discovery, err)
	}
	s.DiscoveryCHAPAuth = false
	if c, err := NewCHAP(s, nil); s.NeedsSecret() || err != nil || len(c.Session)+len(c.Discovery) > 0 {
		t.Errorf("without CHAP: %v", err)
	}
	s.SessionCHAPAuth = true
	secret["node.session.auth.password"] = []byte("a\nnode.startup = automatic")
	if _, err := NewCHAP(s, secret); err == nil || strings.Contains(err.Error(), "automatic") {
		t.Errorf("a line break: %v", err)
	}
}

func TestRecord(t *testing.T) {
	const old = "# BEGIN RECORD 2.1.8\nnode.name = x\nnode.session.auth.authmethod = None\nnode.session.auth.username = a\nnode.session.auth.username = b\n# END RECORD\n"
	got := Record(old, map[string]string{"node.session.auth.authmethod": "CHAP", "node.session.auth.username": "me = you", "node.session.auth.password": "hush"})
	const want = "# BEGIN RECORD 2.1.8\nnode.name = x\nnode.session.auth.authmethod = CHAP\nnode.session.auth.username = me = you\nnode.session.auth.password = hush\n# END RECORD\n"
	check.Equal(t, got, want, "got")
	check.Equal(t, Record("", map[string]string{"a": "b"}), "a = b\n", "of nothing")
}

func twoPortals() *ISCSI {
	return &ISCSI{VolName: "data", Portals: []string{"a:1", "b:1"}, IQN: iqn, LUN: "2", InitIface: "default", Iface: "default"}
}

// at is a session with a portal, with the disk of the LUN if it has a name.
func at(host int, portal, disk, multipath string) Session {
	s := Session{Host: host, Target: iqn, Iface: "default", Portals: []string{portal}, Disks: map[string]Disk{"7": {Name: "other"}}}
	if disk != "" {
		s.Disks["2"] = Disk{disk, multipath}
	}
	return s
}

// TestNext goes through the steps of attaching a LUN, as texts.
func TestNext(t *testing.T) {
	type step struct {
		at       time.Duration
		sessions []Session
		want     string
		fail     bool // the login that is wanted fails
	}
	foreign := at(9, "a:1", "sdz", "")
	foreign.Iface = "other"
	for name, steps := range map[string][]step{
		"from nothing, one path": {
			{sessions: nil, want: "Login a:1"}, {sessions: []Session{at(1, "a:1", "", "")}, want: "Login b:1", fail: true},
			{sessions: []Session{at(1, "a:1", "", "")}, want: "Scan 1"}, {at: time.Second, sessions: []Session{at(1, "a:1", "", "")}, want: "Wait"},
			{at: 2 * time.Second, sessions: []Session{at(1, "a:1", "sda", "")}, want: "Use sda"},
		},
		"two paths, multipath comes": {
			{sessions: []Session{at(1, "a:1", "sda", ""), at(2, "b:1", "sdb", "")}, want: "Wait"},
			{at: time.Second, sessions: []Session{at(1, "a:1", "sda", ""), at(2, "b:1", "sdb", "dm-3")}, want: "Use dm-3"},
		},
		"two paths, no multipath": {
			{at: time.Second, sessions: []Session{at(1, "a:1", "sda", ""), at(2, "b:1", "sdb", "")}, want: "Wait"},
			{at: 12 * time.Second, sessions: []Session{at(1, "a:1", "sda", ""), at(2, "b:1", "sdb", "")}, want: "Use sda"},
		},
		"both portals of one session": {
			{sessions: []Session{{Host: 1, Target: iqn, Iface: "default", Portals: []string{"a:1", "b:1"}, Disks: map[string]Disk{"2": {Name: "sda"}}}}, want: "Use sda"},
		},
		"another's interface": {{sessions: []Session{foreign}, want: "Login a:1"}},
		"no portal": {
			{want: "Login a:1", fail: true}, {want: "Login b:1", fail: true},
			{want: "Fail portal a:1: refused; portal b:1: refused"},
		},
		"no LUN": {
			{sessions: []Session{at(1, "a:1", "", ""), at(2, "b:1", "", "")}, want: "Scan 1"},
			{sessions: []Session{at(1, "a:1", "", ""), at(2, "b:1", "", "")}, want: "Scan 2"},
			{at: 29 * time.Second, sessions: []Session{at(1, "a:1", "", ""), at(2, "b:1", "", "")}, want: "Wait"},
			{at: 31 * time.Second, sessions: []Session{at(1, "a:1", "", ""), at(2, "b:1", "", "")}, want: "Fail logged in, but the target shows no LUN 2 within 30s: check that it has one, and that this initiator may use it"},
		},
		"a session that goes while it is waited for": {
			{sessions: []Session{at(1, "a:1", "", ""), at(2, "b:1", "sdb", "")}, want: "Scan 1"},
			{sessions: []Session{at(2, "b:1", "sdb", "")}, want: "Login a:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, p := twoPortals(), Progress{}
			for i, s := range steps {
				a := d.Next(s.sessions, &p, s.at)
				got := a.Kind.String()
				switch a.Kind {
				case Login:
					got += " " + a.Portal
				case Scan:
					got += fmt.Sprint(" ", a.Host)
				case Use:
					got += " " + a.Device
				case Fail:
					got += " " + a.Why
				case Wait:
				}
				check.Fatal(t, check.Is(got, s.want, "step %d", i))
				if s.fail {
					p.Failed(a.Portal, errors.New("refused"))
				}
			}
		})
	}
}

func TestUnused(t *testing.T) {
	other := func(change func(*Used)) Used {
		o := Used{ISCSI: &ISCSI{Portals: []string{"b:1"}, IQN: iqn, LUN: "9", Iface: "default"}}
		change(&o)
		return o
	}
	for _, c := range []struct {
		name   string
		other  Used
		want   []string
		shared bool
	}{
		{"another LUN at one portal", other(func(*Used) {}), []string{"a:1"}, false},
		{"known in part", other(func(o *Used) { o.Partial = true }), nil, false},
		{"another target", other(func(o *Used) { o.ISCSI.IQN = "iqn.other" }), []string{"a:1", "b:1"}, false},
		{"another interface", other(func(o *Used) { o.ISCSI.Iface = "x" }), []string{"a:1", "b:1"}, false},
		{"the same LUN", other(func(o *Used) { o.ISCSI.LUN = "2" }), []string{"a:1"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := twoPortals()
			u := Used{ISCSI: d}
			if got := u.Unused([]Used{c.other}); !slices.Equal(got, c.want) || d.Shared([]Used{c.other}) != c.shared {
				t.Errorf("%v, %v; want %v, %v", got, d.Shared([]Used{c.other}), c.want, c.shared)
			}
		})
	}
	alone := Used{ISCSI: twoPortals()}
	if got := alone.Unused(nil); len(got) != 2 {
		t.Errorf("alone: %v", got)
	}
	alone.Found = []string{"a:1"}
	check.Same(t, alone.Unused(nil), []string{"b:1"}, "with one that was found")
}

// TestFound: a session that was there before the first volume of this node is another's, also for volumes that come later.
func TestFound(t *testing.T) {
	one := func(portal string, found ...string) Used {
		return Used{ISCSI: &ISCSI{Portals: []string{portal}, IQN: iqn, LUN: "9", Iface: "default"}, Found: found}
	}
	ofKubelet := one("c:1")
	ofKubelet.Partial = true
	elsewhere := one("a:1")
	elsewhere.ISCSI.IQN = "iqn.other"
	both := []Session{at(1, "a:1", "", ""), at(2, "b:1", "", "")}
	for _, c := range []struct {
		name     string
		sessions []Session
		others   []Used
		want     []string
	}{
		{"no session", nil, nil, nil},
		{"nothing uses them", both, nil, []string{"a:1", "b:1"}},
		{"one of them", both[1:], nil, []string{"b:1"}},
		{"a volume has made one", both, []Used{one("a:1")}, []string{"b:1"}},
		{"a volume has found one", both, []Used{one("a:1", "a:1")}, []string{"a:1", "b:1"}},
		{"a kubelet has made them", both, []Used{ofKubelet}, nil},
		{"another target", both, []Used{elsewhere}, []string{"a:1", "b:1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			check.Same(t, twoPortals().FoundOf(c.sessions, c.others), c.want, "it")
		})
	}
}

// TestPortalsAreAddresses: a session is found however its address was written, and each portal is used once.
func TestPortalsAreAddresses(t *testing.T) {
	d, err := NewISCSI("data", source(func(s *v1.ISCSIVolumeSource) {
		s.TargetPortal, s.Portals = "[FD00:0:0::0001]", []string{"[fd00::1]:3260", "[fe80::2%eth0]:860"}
	}))
	if err != nil || !slices.Equal(d.Portals, []string{"[FD00:0:0::0001]:3260", "[fe80::2%eth0]:860"}) {
		t.Fatalf("%v, %v", d, err)
	}
	for shown, portal := range map[string]string{
		"[fd00:0000:0000:0000:0000:0000:0000:0001]:3260": d.Portals[0],
		"[fe80::2]:860": d.Portals[1],
	} {
		if d.At(portal, []Session{at(1, shown, "", "")}) == nil {
			t.Errorf("%s is not found as %s", portal, shown)
		}
	}
	if d.At(d.Portals[0], []Session{at(1, "[fd00::1]:860", "", "")}) != nil {
		t.Error("another port was taken")
	}
	check.Equal(t, Portal(d.Portals[0]), "[fd00::1]:3260", "written as")
	u := Used{ISCSI: d}
	if got := u.Unused([]Used{{ISCSI: &ISCSI{Portals: []string{"[fd00::1]:3260"}, IQN: iqn, Iface: "default"}}}); !slices.Equal(got, d.Portals[1:]) {
		t.Errorf("unused: %v", got)
	}
}

func fcSource(change ...func(*v1.FCVolumeSource)) *v1.FCVolumeSource {
	s := &v1.FCVolumeSource{TargetWWNs: []string{"500a0982991b8dc5", "500a0982891b8dc5"}, Lun: new(int32(2))}
	for _, f := range change {
		f(s)
	}
	return s
}

func byWWID(wwids ...string) func(*v1.FCVolumeSource) {
	return func(s *v1.FCVolumeSource) { *s = v1.FCVolumeSource{WWIDs: wwids} }
}

func TestNewFC(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1.FCVolumeSource)
		dir    string // or what the error says
		bad    bool
	}{
		{name: "WWNs", change: func(*v1.FCVolumeSource) {}, dir: "fc/500a0982991b8dc5-500a0982891b8dc5-lun-2"},
		{name: "WWIDs", change: byWWID("3600508b400105e210000900000490000", "VENDOR disk 7"), dir: "fc/3600508b400105e210000900000490000-VENDOR_disk_7"},
		{name: "one WWID", change: byWWID("3600508b400105e210000900000490000"), dir: "fc/3600508b400105e210000900000490000"},
		{name: "nothing", change: byWWID(), dir: "targetWWNs and lun, or wwids", bad: true},
		{name: "no LUN", change: func(s *v1.FCVolumeSource) { s.Lun = nil }, dir: "targetWWNs and lun", bad: true},
		{name: "a path", change: byWWID("../x"), dir: "can't be one", bad: true},
		{name: "negative LUN", change: func(s *v1.FCVolumeSource) { s.Lun = new(int32(-1)) }, dir: "lun -1", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := NewFC(fcSource(c.change))
			if c.bad {
				if err == nil || !strings.Contains(err.Error(), c.dir) {
					t.Fatalf("error %v, want one that says %q", err, c.dir)
				}
				return
			}
			if err != nil || d.Dir() != c.dir {
				t.Fatalf("directory %s, %v, want %s", d.Dir(), err, c.dir)
			}
			if back, err := OfDir(d.Dir()); err != nil || back.FC.Dir() != c.dir || back.FC.LUN != d.LUN {
				t.Errorf("read back: %+v, %v", back.FC, err)
			}
		})
	}
}

// TestLinksOfFC: what udev calls disks of Fibre Channel, and what is none of this one.
func TestLinksOfFC(t *testing.T) {
	byPath := []string{
		"fc-0x500a0982891b8dc5-lun-2", "fc-0x500a0982991b8dc5-lun-20", "fc-0x500a0982991b8dc5-lun-2-part1",
		"ip-10.0.0.1:3260-iscsi-iqn.x-lun-2", "pci-0000:41:00.0-fc-0x500a0982991b8dc5-lun-2", "xfc-0x500a0982991b8dc5-lun-2",
	}
	byID := []string{"scsi-3600", "scsi-3600-part1", "wwn-0x3600"}
	for _, c := range []struct {
		change func(*v1.FCVolumeSource)
		want   []string
	}{
		{func(*v1.FCVolumeSource) {}, []string{"by-path/" + byPath[4], "by-path/" + byPath[0]}},
		{byWWID("3600"), []string{"by-id/scsi-3600"}},
		{byWWID("360"), nil},
	} {
		d := check.Value(NewFC(fcSource(c.change)))(t)
		check.Same(t, d.Links(byPath, byID), c.want, "%s", d)
	}
}

func TestNextOfFC(t *testing.T) {
	type step struct {
		at    time.Duration
		disks []Disk
		want  string
	}
	one, two := []Disk{{Name: "sda"}}, []Disk{{Name: "sda"}, {Name: "sdb"}}
	for name, steps := range map[string][]step{
		"multipath":        {{disks: []Disk{{"sda", "dm-1"}}, want: "Use dm-1"}},
		"one path":         {{disks: one, want: "Scan"}, {disks: one, want: "Use sda"}},
		"comes after scan": {{want: "Scan"}, {at: time.Second, want: "Wait"}, {at: 2 * time.Second, disks: one, want: "Use sda"}},
		"two paths":        {{disks: two, want: "Scan"}, {disks: two, want: "Wait"}, {at: 11 * time.Second, disks: two, want: "Use sda"}},
		"multipath comes":  {{disks: two, want: "Scan"}, {disks: two, want: "Wait"}, {disks: []Disk{{"sda", "dm-1"}, {"sdb", "dm-1"}}, want: "Use dm-1"}},
		"none":             {{want: "Scan"}, {at: 31 * time.Second, want: "Fail"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := check.Value(NewFC(fcSource()))(t)
			var p Progress
			for i, s := range steps {
				a := d.Next(s.disks, &p, s.at)
				check.Fatal(t, check.Is(strings.TrimSpace(a.Kind.String()+" "+a.Device), s.want, "step %d", i))
			}
		})
	}
}

func TestSharedFC(t *testing.T) {
	d := check.Value(NewFC(fcSource()))(t)
	for name, c := range map[string]struct {
		other FC
		want  bool
	}{
		"one path of it": {FC{WWNs: []string{"500a0982891b8dc5"}, LUN: "2"}, true},
		"another LUN":    {FC{WWNs: []string{"500a0982891b8dc5"}, LUN: "3"}, false},
		"by WWID":        {FC{WWIDs: []string{"3600"}}, false},
	} {
		check.Equal(t, d.Shared([]Used{{FC: &c.other}}), c.want, "%s", name)
	}
}
