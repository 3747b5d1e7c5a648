package blockmount

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// most is how much output of a program is read.
const most = 64 << 10

// run runs a program that dies with this process, which is killed with its process group.
func run(command []string) (status int, output string, err error) {
	return execute(command, nil)
}

// detached runs a program that goes on when this process is killed, and keeps the device locked until it ends.
func (d *device) detached(command []string) (status int, output string, err error) {
	return execute(command, d.File)
}

// write runs a program that writes a file system, and fails if it does.
func (d *device) write(command []string) error {
	status, output, err := d.detached(command)
	if err == nil && status != 0 {
		err = fmt.Errorf("%s of device %s failed (exit status %d): %s", command[0], d.path, status, output)
	}
	return err
}

// execute runs a program. One that gets locked, a file that it has to keep open, is in a session of its own.
// Its output goes to a file in memory: a pipe would break when this process is killed.
func execute(command []string, locked *os.File) (status int, output string, err error) {
	program, err := exec.LookPath(command[0])
	if err != nil {
		return 0, "", hostcall.Failf(port.InvalidConfig, "%v", blockdevice.Missing(command[0]))
	}
	fd, err := unix.MemfdCreate(command[0], unix.MFD_CLOEXEC)
	if err != nil {
		return 0, "", fmt.Errorf("make a file for the output of %s: %w", command[0], err)
	}
	out := os.NewFile(uintptr(fd), command[0])
	defer out.Close() //nolint:errcheck // it is in memory
	c := exec.Command(program, command[1:]...)
	c.Stdout, c.Stderr = out, out
	if locked != nil {
		c.ExtraFiles = []*os.File{locked}
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	err = c.Run()
	text, readErr := io.ReadAll(io.NewSectionReader(out, 0, most))
	output = strings.TrimSpace(string(text))
	if e, is := errors.AsType[*exec.ExitError](err); is && e.Exited() {
		return e.ExitCode(), output, readErr
	}
	if err := errors.Join(err, readErr); err != nil {
		return 0, "", fmt.Errorf("%s: %w: %s", command[0], err, output)
	}
	return 0, output, nil
}
