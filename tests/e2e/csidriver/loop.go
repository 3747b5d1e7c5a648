package csidriver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
)

// loopOf is the device of an image file, such as /dev/loop3, empty if it has none.
func loopOf(image string) (device string, err error) {
	all, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return "", err
	}
	for _, file := range all {
		// The kernel gives up devices at any time.
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == image {
			return "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(file))), nil
		}
	}
	return "", nil
}

// attachLoop gives an image file a device, unless it has one.
func attachLoop(image string) (device string, err error) {
	defer check.Return(&err)
	if device, err = loopOf(image); err != nil || device != "" {
		return device, err
	}
	control := check.Must(os.OpenFile("/dev/loop-control", os.O_RDWR, 0))
	defer control.Close()
	file := check.Must(os.OpenFile(image, os.O_RDWR, 0))
	defer file.Close()
	for range 100 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", fmt.Errorf("find a free loop device: %w", err)
		}
		device = fmt.Sprint("/dev/loop", n)
		loop := check.Must(os.OpenFile(device, os.O_RDWR, 0))
		config := unix.LoopConfig{Fd: uint32(file.Fd())}
		copy(config.Info.File_name[:], image)
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &config)
		loop.Close()
		if !errors.Is(err, unix.EBUSY) { // somebody else was faster
			if err != nil {
				err = fmt.Errorf("give %s the device %s: %w", image, device, err)
			}
			return device, err
		}
	}
	return "", errors.New("no loop device stays free")
}

// onLoop does an ioctl on the device of an image file, if it has one.
func onLoop(image string, ioctl uint) error {
	device, err := loopOf(image)
	if err != nil || device == "" {
		return err
	}
	loop, err := os.Open(device)
	if err != nil {
		return err
	}
	defer loop.Close()
	if err := unix.IoctlSetInt(int(loop.Fd()), ioctl, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("change %s of %s: %w", device, image, err)
	}
	return nil
}

// detachLoop takes the device away; the kernel does so once nobody has it open.
func detachLoop(image string) error { return onLoop(image, unix.LOOP_CLR_FD) }

// growLoop has the device be as large as the file.
func growLoop(image string) error { return onLoop(image, unix.LOOP_SET_CAPACITY) }
