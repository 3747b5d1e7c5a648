package volume

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/child"
	"github.com/troupe-dev/troupe/supervisor/host/child/filecount"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/fsgroup"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/hostpath"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/subpath"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/unmount"
)

// The operations of a child.
const (
	opHostPath = "check"      // that Path is of Type, and make it if it says so
	opUnmount  = "unmount"    // take down what is mounted at Path; with Source, below that without following a link
	opForce    = "force"      // the same, giving up what its server has not answered
	opBind     = "bind"       // bind Source to Path, or what is on it if it is a device, and give it to Group
	opGrow     = "grow"       // grow the file system of the device Source, mounted at Path
	opNFS      = "nfs"        // mount the export Source at Path
	opSubPaths = "subPath"    // mount Parts, all below Path
	opRoom     = "room"       // say what room there is at Paths
	opDisk     = "attachment" // attach Disk and mount it at Path, or unmount and detach it
	opMap      = "map"        // map the device Source as Map says
	opUnmap    = "unmap"      // take the device at Path away from its pod
	opTrees    = "trees"      // count what the embedded request says: package filecount
)

// request is an operation for a child.
type request struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	// pod is whose request it is, if Path does not say so. turn is its turn, nil until it has one.
	pod  string
	turn *child.Turn
	// Type is a v1.HostPathType.
	Type string `json:"type,omitempty"`
	// Source is what is mounted, Options how; Mounted: only Group is missing.
	Source  string   `json:"source,omitempty"`
	Options []string `json:"options,omitempty"`
	Mounted bool     `json:"mounted,omitempty"`
	// Whole: it is unmounted together with what is mounted within it, which stays where else it is seen. With Alone it
	// goes there too, as no other pod has the file system.
	Whole bool `json:"whole,omitempty"`
	Alone bool `json:"alone,omitempty"`
	// Device says how a device is mounted; Global is where, if Source is one.
	Device *blockdevice.MountWant `json:"device,omitempty"`
	Global string                 `json:"global,omitempty"`
	// Group must own the volume (fsGroup), OnMismatch: unless its top has the group already.
	Group      *int64 `json:"group,omitempty"`
	OnMismatch bool   `json:"onMismatch,omitempty"`
	// Taken: another pod has the volume. The child changes nothing, and says which group it is of, if it is another one.
	Taken bool `json:"taken,omitempty"`
	// Report is when the child says how many files have it by now, for the first time and then every so often; walked is
	// told. given is what it counts.
	Report *[2]time.Duration `json:"report,omitempty"`
	walked port.Walked
	given  *fsgroup.Change
	// Disk is what opDisk is about.
	Disk *diskRequest `json:"disk,omitempty"`
	// Map is where a pod gets a device.
	Map *blockmap.Map `json:"map,omitempty"`
	// Parts are the sub-paths to mount.
	Parts []subpath.Part `json:"parts,omitempty"`
	// Paths are those to measure.
	Paths []string `json:"paths,omitempty"`
	filecount.Request
}

// waitsFor is what can hold up a child.
type waitsFor uint8

const (
	// nothing: only the machine itself.
	nothing waitsFor = iota
	// servers: those of file systems and disks of a network.
	servers
	// ends: also servers, but what ends a pod must not wait for what begins one.
	ends
	// walks: a directory is measured, or all of it is changed. serverWalks: that of a server is changed.
	walks
	serverWalks
	// statistics: how full the file system of a server is. Nobody waits for it but who asks for statistics.
	statistics
)

func (r *request) waitsFor(local func(path string) bool) waitsFor {
	switch r.Op {
	case opUnmount, opForce, opUnmap:
		return ends
	case opRoom:
		if r.pod != "" {
			return statistics
		}
		return walks
	case opTrees:
		return walks
	case opNFS:
		return servers
	case opDisk:
		if r.Disk.Release {
			return ends
		}
		return servers
	}
	if r.Group != nil && local(r.Path) {
		return walks
	}
	if r.Group != nil {
		return serverWalks
	}
	paths := []string{r.Path}
	if r.Source != "" {
		paths[0] = r.Source
	}
	for _, p := range r.Parts {
		paths = append(paths, p.Volume)
	}
	for _, path := range paths {
		if !local(path) {
			return servers
		}
	}
	return nothing
}

// owner is the pod that a request is for, empty if it is for several.
func (r *request) owner(pods string) string {
	rest, is := strings.CutPrefix(r.Path, pods+"/")
	if r.pod != "" || !is {
		return r.pod
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// arg is the first argument of the child.
func (r request) arg() string {
	if r.Op == opTrees {
		return filecount.Arg
	}
	return childArg
}

func (r request) perform() error {
	switch r.Op {
	case opHostPath:
		return hostpath.Check(r.Path, v1.HostPathType(r.Type))
	case opSubPaths:
		return subpath.Mount(r.Parts)
	case opUnmount:
		switch {
		case r.Alone:
			return unmount.Whole(r.Path, unmount.Within)
		case r.Whole:
			return unmount.Whole(r.Path, unmount.Apart)
		}
		return unmount.At(r.Source, r.Path, 0)
	case opForce:
		return unmount.At(r.Source, r.Path, unix.MNT_FORCE)
	case opBind:
		return bindLocal(&r)
	case opGrow:
		return growLocal(&r)
	case opNFS:
		return mountNFS(&r)
	case opMap:
		return r.Map.Set(r.Source)
	case opUnmap:
		all, err := mounts.Now()
		if err != nil {
			return err
		}
		return blockmap.Clear(all, r.Path)
	default:
		return fmt.Errorf("unknown request %q", r.Op)
	}
}
