package netdisks

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/tests/check"
)

const wwn = "500a0982991b8dc5"

// link makes a link of udev to a disk.
func (p *play) link(name, disk string) {
	p.t.Helper()
	file := filepath.Join(p.Dev, "disk", name)
	p.write(filepath.Join("dev", disk), "")
	check.Fatal(p.t, os.MkdirAll(filepath.Dir(file), 0o755))
	check.Fatal(p.t, os.Symlink(filepath.Join(p.Dev, disk), file))
}

func (p *play) attachFC(d *blockdevice.FC) string {
	p.t.Helper()
	return check.Value(p.AttachFC(p.t.Context(), d))(p.t)
}

// TestFCIsScannedFor: no directory here is a host adapter, so this shows what is read and written, and no more.
func TestFCIsScannedFor(t *testing.T) {
	p := newPlay(t)
	d := &blockdevice.FC{WWNs: []string{wwn}, LUN: "2"}
	_, err := p.AttachFC(t.Context(), d)
	wantInvalid(t, err, "Fibre Channel target "+wwn+" (LUN 2)", "no host adapter of Fibre Channel")
	p.write("sys/class/fc_host/host5/port_name", "")
	p.write("sys/class/scsi_host/host5/scan", "")
	p.write("sys/class/scsi_host/host6/scan", "") // of iSCSI
	got := make(chan error, 1)
	go func() {
		_, err := p.AttachFC(t.Context(), d)
		got <- err
	}()
	scan := func(host string) string {
		return string(check.Value(os.ReadFile(filepath.Join(p.Sys, "class/scsi_host", host, "scan")))(t))
	}
	check.Until(t, "the host is scanned", func() bool { return scan("host5") == "- - -" })
	p.link("by-path/pci-0000:41:00.0-fc-0x"+wwn+"-lun-2", "sdc")
	check.Error(t, <-got)
	check.Equal(t, scan("host6"), "", "another host was scanned")
	p.write("sys/block/sdc/device/delete", "")
	other := blockdevice.Used{FC: &blockdevice.FC{WWNs: []string{"500a0982891b8dc5", wwn}, LUN: "2"}}
	for _, c := range []struct {
		others []blockdevice.Used
		want   string
	}{{[]blockdevice.Used{other}, ""}, {nil, "1"}} {
		check.Value(p.DetachFC(t.Context(), d, c.others))(t)
		if b, err := os.ReadFile(filepath.Join(p.Sys, "block/sdc/device/delete")); err != nil || string(b) != c.want {
			t.Errorf("with others %v the disk was told %q, %v; want %q", c.others, b, err, c.want)
		}
	}
}

// TestFCMultipath: of a WWID, udev shows the device of multipathd. All its paths go with it.
func TestFCMultipath(t *testing.T) {
	p := newPlay(t)
	p.link("by-id/scsi-3600", "dm-4")
	p.write("sys/block/dm-4/dm/uuid", "mpath-3600\n")
	for _, disk := range []string{"sdd", "sde"} {
		p.write("sys/block/dm-4/slaves/"+disk+"/x", "")
		p.write("sys/block/"+disk+"/holders/dm-4/x", "")
		p.write("sys/block/"+disk+"/device/delete", "")
	}
	d := &blockdevice.FC{WWIDs: []string{"3600"}}
	check.Equal(t, p.attachFC(d), filepath.Join(p.Dev, "dm-4"), "device")
	bin := t.TempDir()
	check.Fatal(t,
		os.WriteFile(filepath.Join(bin, "multipath"), []byte("#!/bin/sh\necho multipath \"$*\" >>\"$PLAY/calls\"\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	check.Value(p.DetachFC(t.Context(), d, nil))(t)
	p.wantCalls("multipath -f " + filepath.Join(p.Dev, "dm-4"))
	for _, disk := range []string{"sdd", "sde"} {
		if b, err := os.ReadFile(filepath.Join(p.Sys, "block", disk, "device/delete")); err != nil || string(b) != "1" {
			t.Errorf("path %s was told %q, %v", disk, b, err)
		}
	}
}

// loop shows the loop device at device as a disk of the machine, with a link.
func (p *play) loop(device, link string) {
	p.t.Helper()
	name := filepath.Base(device)
	check.Fatal(p.t,
		errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(device, link), os.Symlink(device, filepath.Join(p.Dev, name))))
	p.write("sys/block/"+name+"/device/delete", "")
}

// wantHeld: a disk stays until it is free.
func (p *play) wantHeld(name string, free func(), d *blockdevice.FC, others ...blockdevice.Used) {
	p.t.Helper()
	p.wantLeft(name)(p.DetachFC(p.t.Context(), d, others))
	p.wantDeleted(name, false)
	free()
	p.wantLeft()(p.DetachFC(p.t.Context(), d, nil))
	p.wantDeleted(name, true)
}

// wantMultipathHeld: a device of multipathd that is in use stays, and its paths with it.
func (p *play) wantMultipathHeld() {
	p.t.Helper()
	p.write("sys/block/dm-4/dm/uuid", "mpath-3600\n")
	p.write("sys/block/sdd/device/delete", "")
	p.wantLeft("dm-4")(p.release(p.t.Context(), []blockdevice.Disk{{Name: "sdd", Multipath: "dm-4"}}))
	p.wantDeleted("sdd", false)
}

// TestFCDiskInUseStays: a path or a device of multipathd that is mounted elsewhere stays. A volume that names the same
// disk by WWID is not known to be the same.
func TestFCDiskInUseStays(t *testing.T) {
	p := newPlay(t)
	free := p.mountedLoop("sdc")
	device := check.Value(os.Readlink(filepath.Join(p.Dev, "sdc")))(t)
	name := filepath.Base(device)
	link := filepath.Join(p.Dev, "disk/by-path/fc-0x"+wwn+"-lun-2")
	p.loop(device, link)
	d, other := &blockdevice.FC{WWNs: []string{wwn}, LUN: "2"}, blockdevice.Used{FC: &blockdevice.FC{WWIDs: []string{"3600"}}}
	p.wantHeld(name, free, d, other)
}

// TestMultipathInUseStays, and its paths with it: multipath is not asked.
func TestMultipathInUseStays(t *testing.T) {
	p := newPlay(t)
	p.mountedLoop("dm-4")
	p.wantMultipathHeld()
}

// TestFCMappedDiskStays: a pod has it as a device, by a volume that names it in the other way.
func TestFCMappedDiskStays(t *testing.T) {
	p := newPlay(t)
	name, free := p.mappedLoop("sdc")
	device, link := "/dev/"+name, filepath.Join(p.Dev, "disk/by-id/scsi-3600")
	p.loop(device, link)
	d, other := &blockdevice.FC{WWIDs: []string{"3600"}}, blockdevice.Used{Block: true, FC: &blockdevice.FC{WWNs: []string{wwn}, LUN: "2"}}
	p.wantHeld(name, free, d, other)
}

// TestMappedMultipathStays, and its paths with it: multipath is not asked, which would fail.
func TestMappedMultipathStays(t *testing.T) {
	p := newPlay(t)
	p.mappedLoop("dm-4")
	p.wantMultipathHeld()
}
