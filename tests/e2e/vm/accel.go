package vm

import (
	"os"
	"slices"
	"strings"
)

const kvmDevice = "/dev/kvm"

// accelerator is what qemu runs the guest with: KVM where the processor has it for us. A virtual machine may have the device
// though its processor offers nothing, and a guest then hangs: so the device alone says nothing.
func accelerator() string {
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !virtualizes(string(cpuinfo)) {
		return "tcg,thread=multi"
	}
	device, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	if err != nil {
		return "tcg,thread=multi"
	}
	device.Close()
	return "kvm"
}

// virtualizes says whether a /proc/cpuinfo is of a processor that runs virtual machines: Intel's vmx or AMD's svm.
func virtualizes(cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "flags" {
			flags := strings.Fields(value)
			return slices.Contains(flags, "vmx") || slices.Contains(flags, "svm")
		}
	}
	return false
}
