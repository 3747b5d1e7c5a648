// Package hostpath says whether a path of the node is what the type of a hostPath volume wants.
package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// Modes of what is made, as the kubelet has them.
const (
	dirMode  = 0o755
	fileMode = 0o644
)

// Check holds path against the type (API HostPathType), and makes it if the type says so. The texts are the ones that
// users of the kubelet know.
func Check(path string, want v1.HostPathType) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		switch want {
		case v1.HostPathDirectoryOrCreate:
			return os.MkdirAll(path, dirMode)
		case v1.HostPathFileOrCreate:
			return makeFile(path)
		default: // has to be there
		}
	}
	name, fits := Type(want)
	switch {
	case fits == nil:
		return hostcall.Failf(port.InvalidConfig, "hostPath %s: %q is not a valid type", path, want)
	case err == nil && fits(info.Mode()):
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("path %q does not exist", path)
	}
	has, err := is(info, err)
	if err != nil {
		has = "unable to determine its type: " + err.Error()
	}
	return fmt.Errorf("hostPath type check failed: %s is not a %s, %s", path, name, has)
}

// is says what is at a path.
func is(info fs.FileInfo, err error) (string, error) {
	if err != nil {
		return "", err
	}
	for _, t := range [...]v1.HostPathType{
		v1.HostPathDirectory, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev,
	} {
		if _, fits := Type(t); fits(info.Mode()) {
			return fmt.Sprintf("it's a %s", t), nil
		}
	}
	return "", errors.New("only recognise file, directory, socket, block device and character device")
}

// Type is the name of a type, and the modes that it allows; nil if there is no such type.
func Type(t v1.HostPathType) (name string, fits func(fs.FileMode) bool) {
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
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|unix.O_NONBLOCK, fileMode)
	if err != nil {
		return err
	}
	return f.Close()
}
