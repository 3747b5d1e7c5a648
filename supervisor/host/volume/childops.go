package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/child"
	"github.com/troupe-dev/troupe/supervisor/host/child/filecount"
	"github.com/troupe-dev/troupe/supervisor/host/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
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
	given  *regroup
	// Disk is what opDisk is about.
	Disk *diskRequest `json:"disk,omitempty"`
	// Map is where a pod gets a device.
	Map *blockmap.Map `json:"map,omitempty"`
	// Parts are the sub-paths to mount.
	Parts []part `json:"parts,omitempty"`
	// Paths are those to measure.
	Paths []string `json:"paths,omitempty"`
	filecount.Request
}

// key identifies requests for the same thing.
func (r request) key() string { return r.Op + " " + r.Path }

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
		return checkHostPath(r.Path, v1.HostPathType(r.Type))
	case opSubPaths:
		return mountParts(r.Parts)
	case opUnmount:
		switch {
		case r.Alone:
			return unmountWhole(r.Path, mountedIn)
		case r.Whole:
			return unmountWhole(r.Path, apart)
		}
		return unmountAt(r.Source, r.Path, 0)
	case opForce:
		return unmountAt(r.Source, r.Path, unix.MNT_FORCE)
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

// checkHostPath holds path against the type (API HostPathType). The texts are
// the ones that users of the kubelet know.
func checkHostPath(path string, want v1.HostPathType) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		switch want {
		case v1.HostPathDirectoryOrCreate:
			return os.MkdirAll(path, hostDirMode)
		case v1.HostPathFileOrCreate:
			return makeFile(path)
		default: // has to be there
		}
	}
	name, fits := hostPathType(want)
	switch {
	case fits == nil:
		return hostcall.Failf(port.InvalidConfig, "hostPath %s: %q is not a valid type", path, want)
	case err == nil && fits(info.Mode()):
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("path %q does not exist", path)
	}
	is, err := hostPathIs(info, err)
	if err != nil {
		is = "unable to determine its type: " + err.Error()
	}
	return fmt.Errorf("hostPath type check failed: %s is not a %s, %s", path, name, is)
}

// hostPathIs says what is at a path.
func hostPathIs(info fs.FileInfo, err error) (string, error) {
	if err != nil {
		return "", err
	}
	for _, t := range [...]v1.HostPathType{
		v1.HostPathDirectory, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev,
	} {
		if _, fits := hostPathType(t); fits(info.Mode()) {
			return fmt.Sprintf("it's a %s", t), nil
		}
	}
	return "", errors.New("only recognise file, directory, socket, block device and character device")
}

// hostPathType is the name of a type, and the modes that it allows; nil if there is no such type.
func hostPathType(t v1.HostPathType) (name string, fits func(fs.FileMode) bool) {
	switch t {
	case v1.HostPathDirectory, v1.HostPathDirectoryOrCreate:
		return "directory", fs.FileMode.IsDir
	case v1.HostPathFile, v1.HostPathFileOrCreate:
		return "file", fs.FileMode.IsRegular
	case v1.HostPathSocket:
		return "socket file", func(m fs.FileMode) bool { return m&fs.ModeSocket != 0 }
	case v1.HostPathCharDev:
		return "character device", func(m fs.FileMode) bool { return m&fs.ModeCharDevice != 0 }
	case v1.HostPathBlockDev:
		return "block device", func(m fs.FileMode) bool { return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0 }
	default:
		return "", nil
	}
}

func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|unix.O_NONBLOCK, hostFileMode)
	if err != nil {
		return err
	}
	return f.Close()
}

// unmounted is the error of an unmount.
func unmounted(path string, err error) error {
	switch {
	case err == nil, errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT): // not mounted, or gone
		return nil
	case errors.Is(err, unix.EBUSY):
		return hostcall.Failf(port.StateConflict, "unmount %s: it is in use by a process", path)
	}
	return fmt.Errorf("unmount %s: %w", path, err)
}
