package netdisk

import (
	"errors"
	"strings"
)

// Used is a disk that a pod uses: either of the two. Its encoding is that of the notes of pods.
type Used struct {
	ISCSI *ISCSI `json:"iscsi,omitempty"`
	FC    *FC    `json:"fc,omitempty"`
	// Partial: it was found mounted, and only what the name of its directory says is known.
	Partial bool `json:"partial,omitempty"`
	// Found are portals whose sessions were there before: they never end with the disk, and their records stay.
	Found []string `json:"found,omitempty"`
}

// Directories of the two kinds, below plugins/kubernetes.io.
const (
	ISCSIDir = "iscsi"
	FCDir    = "fc"
)

// OfDir is what the name of a directory says. dir is as Dir gives it.
func OfDir(dir string) (u Used, err error) {
	u.Partial = true
	switch parts := strings.Split(dir, "/"); parts[0] {
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

// Dir is where the disk is mounted for all pods, below plugins/kubernetes.io, as a kubelet has it.
func (u *Used) Dir() string {
	if u.ISCSI != nil {
		return u.ISCSI.Dir()
	}
	return u.FC.Dir()
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
