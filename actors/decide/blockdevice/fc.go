package blockdevice

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// FC is a disk of Fibre Channel: a LUN of some target ports, or one that has one of these identifiers.
type FC struct {
	WWNs  []string `json:"wwns,omitempty"`
	LUN   string   `json:"lun,omitempty"`
	WWIDs []string `json:"wwids,omitempty"`
}

// FCOf is the source of a volume of a pod, or of the PersistentVolume that is bound to its claim, as ISCSIOf.
func FCOf(v *v1.Volume, pv *v1.PersistentVolume) *v1.FCVolumeSource {
	if pv == nil || pv.Spec.FC == nil {
		return v.FC
	}
	s := *pv.Spec.FC
	s.ReadOnly = false
	return &s
}

// NewFC makes a disk of its source (core/v1 FCVolumeSource).
func NewFC(s *v1.FCVolumeSource) (*FC, error) {
	d := &FC{}
	switch {
	case s.Lun != nil && len(s.TargetWWNs) > 0:
		if *s.Lun < 0 || *s.Lun > 255 { // API validation
			return d, fmt.Errorf("fc: lun %d must be between 0 and 255", *s.Lun)
		}
		d.WWNs, d.LUN = s.TargetWWNs, strconv.Itoa(int(*s.Lun))
	case len(s.WWIDs) > 0:
		for _, id := range s.WWIDs {
			d.WWIDs = append(d.WWIDs, strings.ReplaceAll(id, " ", "_")) // as udev has it
		}
	default:
		return d, errors.New("fc: it needs targetWWNs and lun, or wwids")
	}
	for _, name := range slices.Concat(d.WWNs, d.WWIDs) {
		if name == "" || name[0] == '.' || strings.ContainsAny(name, "/ \t\n\x00") {
			return d, fmt.Errorf("fc: %q can't be one of targetWWNs or wwids", name)
		}
	}
	return d, nil
}

// Dir is where the disk is mounted for all pods, below plugins/kubernetes.io, as a kubelet has it.
func (d *FC) Dir() string {
	if len(d.WWNs) > 0 {
		return FCDir + "/" + strings.Join(d.WWNs, "-") + "-lun-" + d.LUN
	}
	return FCDir + "/" + strings.Join(d.WWIDs, "-")
}

// fcOfDir is what the name of a directory says. An identifier with a "-" in it is read as two.
func fcOfDir(parts []string) (*FC, error) {
	if len(parts) != 2 {
		return nil, errors.New("it is not <plugin>/<name>")
	}
	names := strings.Split(parts[1], "-")
	last := len(names) - 1
	if last == 0 || names[last-1] != "lun" {
		return &FC{WWIDs: names}, nil
	}
	if _, err := strconv.ParseUint(names[last], 10, 16); err != nil || last == 1 {
		return nil, errors.New("it has no WWN, or no LUN")
	}
	return &FC{WWNs: names[:last-1], LUN: names[last]}, nil
}

// String names the disk for people.
func (d *FC) String() string {
	if len(d.WWNs) > 0 {
		return "Fibre Channel target " + strings.Join(d.WWNs, ", ") + " (LUN " + d.LUN + ")"
	}
	return "Fibre Channel disk " + strings.Join(d.WWIDs, ", ")
}

// Links are the names by which udev shows the paths to the disk, of those that there are in /dev/disk/by-path and
// /dev/disk/by-id, in the order of the targets.
func (d *FC) Links(byPath, byID []string) (out []string) {
	for _, wwn := range d.WWNs {
		link := regexp.MustCompile("^(pci-.*-fc|fc)-0x" + regexp.QuoteMeta(wwn) + "-lun-" + d.LUN + "$")
		for _, name := range byPath {
			if link.MatchString(name) {
				out = append(out, "by-path/"+name)
			}
		}
	}
	for _, id := range d.WWIDs {
		if slices.Contains(byID, "scsi-"+id) {
			out = append(out, "by-id/scsi-"+id)
		}
	}
	return out
}

// allHosts is where Progress notes that all hosts were scanned.
const allHosts = -1

// Next decides what is done next to find the disk, as Next of an ISCSI. A Scan is one of all hosts of Fibre Channel.
//
// There is one scan unless multipathd has made a device of the disk: for more paths, also if there is one.
func (d *FC) Next(disks []Disk, p *Progress, now time.Duration) Action {
	for _, disk := range disks {
		if disk.Multipath != "" {
			return Action{Kind: Use, Device: disk.Multipath}
		}
	}
	since, scanned := p.scanned[allHosts]
	switch {
	case !scanned:
		p.scanned = map[int]time.Duration{allHosts: now}
		return Action{Kind: Scan}
	case len(disks) == 0 && now-since < deviceWait, len(disks) > 1 && now-since < multipathWait:
		return Action{Kind: Wait}
	case len(disks) == 0:
		return Action{Kind: Fail, Why: "no host adapter of this node shows it within " + deviceWait.String() +
			": check the zoning, and that this node may use the LUN"}
	}
	return Action{Kind: Use, Device: disks[0].Name}
}

// Shared reports whether another volume in use may have the same disk.
func (d *FC) Shared(others []Used) bool {
	overlap := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
	}
	return slices.ContainsFunc(others, func(o Used) bool {
		return o.FC != nil && (o.FC.LUN == d.LUN && overlap(o.FC.WWNs, d.WWNs) || overlap(o.FC.WWIDs, d.WWIDs))
	})
}
