// Command guest is the first process of the virtual machine in which package vm tests a node. As
// process 1 it prepares the machine, as an init would, and reaps; its child of the same program runs
// the checks. It makes a mess of any other machine, and so wants to be process 1. In a machine with systemd
// it becomes systemd, which starts it again as a service that runs the checks.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/vm"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == takeAll:
		err = takeAllMemory()
	case os.Getenv(vm.MachineVariable) != "":
		m := vm.Machine(os.Getenv(vm.MachineVariable))
		var goingDown bool
		goingDown, err = checks(m)
		if m.HasSystemd() && !goingDown {
			err = powerOff(err)
		}
	case os.Getpid() == 1 && hasSystemd():
		err = becomeSystemd()
	case os.Getpid() == 1:
		err = initialize()
		if err == nil {
			err = runChild()
		}
		err = powerOff(err)
	default:
		err = errors.New("it is for a virtual machine, as its init")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

// powerOff reports why it comes to this, if err is not nil, and ends the machine.
func powerOff(err error) error {
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		err = report(func(r *vm.Reporter) { r.Fatal(err) })
	}
	unix.Sync()
	return errors.Join(err, unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

// report opens the serial port of the report.
func report(write func(*vm.Reporter)) error {
	port, err := os.OpenFile(vm.ReportDevice, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer port.Close()
	write(vm.NewReporter(port))
	return nil
}

// runChild runs the checks in a child and reaps whatever is left to process 1 meanwhile: shims are.
func runChild() error {
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), vm.MachineVariable+"="+string(vm.Bare))
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the checks: %w", err)
		}
		if pid != child.Process.Pid {
			continue
		}
		if status.ExitStatus() != 0 {
			return fmt.Errorf("the checks ended with status %#x", status)
		}
		return nil
	}
}

// checks makes all checks on each release. goingDown says that systemd is shutting the machine down then.
func checks(m vm.Machine) (goingDown bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), vm.Deadline)
	defer cancel()
	if m.HasSystemd() {
		if err := growRun(); err != nil {
			return false, err
		}
	}
	registry, err := serveImages(ctx)
	if err != nil {
		return false, fmt.Errorf("serve images: %w", err)
	}
	defer registry.Close()
	err = report(func(r *vm.Reporter) {
		for _, release := range m.Releases() {
			h := newHost(m, release, registry, r)
			h.checkAll(ctx)
			goingDown = h.goingDown
		}
		r.End()
	})
	return goingDown, err
}

// serveImages makes images of the programs that the host has put there.
func serveImages(ctx context.Context) (_ *lab.Registry, err error) {
	defer check.Return(&err)
	registry := check.Must(lab.NewRegistry())
	for ref, program := range lab.Programs() {
		binary := check.Must(os.ReadFile(filepath.Join(vm.ImagesDir, program)))
		image := check.Must(lab.NewPlainProgramImage(program, binary))
		check.OK(registry.Push(ctx, ref, image))
	}
	return registry, nil
}
