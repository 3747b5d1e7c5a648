package netdisks

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// pathsOf are the disks that are paths to one of Fibre Channel, each once.
func (m Machine) pathsOf(d *blockdevice.FC) (out []blockdevice.Disk, err error) {
	byPath, err := names("", m.Dev, "disk/by-path")
	if err != nil {
		return nil, err
	}
	byID, err := names("", m.Dev, "disk/by-id")
	if err != nil {
		return nil, err
	}
	add := func(name string) {
		if !slices.ContainsFunc(out, func(o blockdevice.Disk) bool { return o.Name == name }) {
			out = append(out, blockdevice.Disk{Name: name, Multipath: m.multipath(name)})
		}
	}
	for _, link := range d.Links(byPath, byID) {
		device, err := filepath.EvalSymlinks(filepath.Join(m.Dev, "disk", link))
		if err != nil {
			continue // it has gone meanwhile
		}
		name := filepath.Base(device)
		// by-id leads to the device of multipathd, if there is one: its paths are the disks.
		paths, err := names("", m.Sys, "block", name, "slaves")
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			paths = []string{name}
		}
		for _, p := range paths {
			add(p)
		}
	}
	for _, disk := range slices.Clone(out) {
		if disk.Multipath == "" {
			continue
		}
		paths, err := names("", m.Sys, "block", disk.Multipath, "slaves")
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			add(p)
		}
	}
	return out, nil
}

// AttachFC finds a disk of Fibre Channel, and gives its device. It is idempotent.
func (m Machine) AttachFC(ctx context.Context, d *blockdevice.FC) (string, error) {
	began := time.Now()
	var p blockdevice.Progress
	for {
		disks, err := m.pathsOf(d)
		if err != nil {
			return "", err
		}
		switch a := d.Next(disks, &p, time.Since(began)); a.Kind {
		case blockdevice.Scan:
			if err := m.scanFC(len(disks) > 0); err != nil {
				return "", fmt.Errorf("%s can't be attached: %w", d, err)
			}
		case blockdevice.Wait:
			if err := wait(ctx); err != nil {
				return "", err
			}
		case blockdevice.Use:
			return filepath.Join(m.Dev, a.Device), nil
		case blockdevice.Fail:
			return "", fmt.Errorf("%s can't be attached: %s", d, a.Why)
		case blockdevice.Login:
			return "", errors.New("there is nothing to log in to")
		}
	}
}

// scanFC has the kernel look for all LUNs at all hosts of Fibre Channel: a LUN may come at any of them. found: there is
// a path already, and no host is needed.
func (m Machine) scanFC(found bool) error {
	hosts, err := names("host", m.Sys, "class/fc_host")
	if err != nil {
		return err
	}
	if len(hosts) == 0 && !found {
		return hostcall.Failf(port.InvalidConfig, "this node has no host adapter of Fibre Channel (/sys/class/fc_host is "+
			"empty): run the pod on a node that has one")
	}
	for _, host := range hosts {
		if err := m.scan(host, "- - -"); err != nil {
			return err
		}
	}
	return nil
}

// DetachFC takes away the disks of one of Fibre Channel, unless another volume has them. left are devices that stay,
// because something else uses them: also a volume that names the same disk in the other of the two ways. It is
// idempotent.
func (m Machine) DetachFC(
	ctx context.Context, d *blockdevice.FC, others []blockdevice.Used,
) (left []string, err error) {
	if d.Shared(others) {
		return nil, nil
	}
	disks, err := m.pathsOf(d)
	if err != nil {
		return nil, err
	}
	return m.release(ctx, disks)
}
