package blockdevice

import (
	"errors"
	"slices"
	"strings"
)

// Used is a disk that a pod uses: either of the two. Its encoding is that of the notes of pods.
type Used struct {
	ISCSI *ISCSI `json:"iscsi,omitempty"`
	FC    *FC    `json:"fc,omitempty"`
	// Partial: it was found mounted, and only what the name of its directory says is known.
	Partial bool `json:"partial,omitempty"`
	// Block: the pod has it as a device (volumeMode Block).
	Block bool `json:"block,omitempty"`
	// Found are portals whose sessions were there before: they never end with the disk, and their records stay.
	Found []string `json:"found,omitempty"`
}

// Directories of the two kinds, below plugins/kubernetes.io.
const (
	ISCSIDir = "iscsi"
	FCDir    = "fc"
)

// devicesDir is where devices are, below the directory of their kind.
const devicesDir = "volumeDevices"

// OfDir is what the name of a directory says. dir is as Dir gives it.
func OfDir(dir string) (u Used, err error) {
	u.Partial = true
	parts := strings.Split(dir, "/")
	if len(parts) > 1 && parts[1] == devicesDir {
		u.Block, parts = true, slices.Delete(parts, 1, 2)
	}
	switch parts[0] {
	case ISCSIDir:
		u.ISCSI, err = iscsiOfDir(parts)
	case FCDir:
		u.FC, err = fcOfDir(parts)
	default:
		err = errors.New("it is of no kind that is known")
	}
	return u, err
}

// Valid reports whether it names a disk.
func (u *Used) Valid() bool {
	return u.ISCSI != nil && len(u.ISCSI.Portals) > 0 || u.FC != nil && len(u.FC.WWNs)+len(u.FC.WWIDs) > 0
}

// Dir is where the disk is mounted for all pods, or mapped into each, below plugins/kubernetes.io, as a kubelet has it.
func (u *Used) Dir() string {
	var dir string
	if u.ISCSI != nil {
		dir = u.ISCSI.Dir()
	} else {
		dir = u.FC.Dir()
	}
	if u.Block {
		kind, rest, _ := strings.Cut(dir, "/")
		dir = kind + "/" + devicesDir + "/" + rest
	}
	return dir
}

// Target is what only one thing at a time is done with.
func (u *Used) Target() string {
	if u.ISCSI != nil {
		return u.ISCSI.IQN
	}
	return u.FC.Dir()
}

// String names the disk for people.
func (u *Used) String() string {
	if u.ISCSI != nil {
		return u.ISCSI.String()
	}
	return u.FC.String()
}
