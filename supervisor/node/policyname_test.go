package node

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	must "github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestPolicyInStateFiles: programs read there which policy the node has, so it is that of the agent that runs.
func TestPolicyInStateFiles(t *testing.T) {
	const (
		none     = `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}` // a kubelet's
		noMemory = `{"policyName":"None","machineState":{},"checksum":4236770233}`
		damaged  = `{"policyName":"static","checksum":1}`
	)
	conn := systemd(t)
	static := string((&cpus.File{Policy: cpus.Static, Shared: cpuset.New(0, 1)}).Format())
	inMemory := `{"policyName":"Static","machineState":{}}`
	for name, tt := range map[string]struct{ cpus, memory, wantCPUs, wantMemory string }{
		"a new node":               {"", "", none, noMemory},
		"it was static":            {static, inMemory, none, noMemory},
		"as before":                {none + "\n", noMemory + "\n", none + "\n", noMemory + "\n"},
		"what can't be read stays": {damaged, damaged, damaged, damaged},
	} {
		t.Run(name, func(t *testing.T) {
			inCPUs, inMemory := started(t, conn, tt.cpus, tt.memory)
			must.Equal(t, inCPUs, tt.wantCPUs, "CPUs")
			must.Equal(t, inMemory, tt.wantMemory, "memory")
		})
	}
	for _, before := range []string{"", none} {
		inCPUs, _ := started(t, conn, before, noMemory, "--cpu-manager-policy=static", "--reserved-cpus=0")
		must.Equal(t, must.Value(cpus.Parse([]byte(inCPUs)))(t).Policy, cpus.Static, "the policy that is static now")
	}
}

// started are the state files of an agent that started with these.
func started(t *testing.T, conn *net.UnixConn, cpuFile, memoryFile string, args ...string) (inCPUs, inMemory string) {
	t.Helper()
	o := simulated(t, args...)
	file := func(name string) string { return filepath.Join(o.Config.Options().RootDir, name) }
	for name, text := range map[string]string{cpus.FileName: cpuFile, memory.FileName: memoryFile} {
		if text != "" {
			hosttest.Write(t, file(name), text)
		}
	}
	cancel, ended := isUp(t, conn, o)
	must.Until(t, "the file of CPUs has the policy of now, or can't be read", func() bool {
		data, err := os.ReadFile(file(cpus.FileName))
		s, wrong := cpus.Parse(data)
		return err == nil && (wrong != nil || (s.Policy == cpus.Static) == o.Config.StaticCPUs())
	})
	cancel()
	must.Error(t, <-ended)
	read := func(name string) string { return string(must.Value(os.ReadFile(file(name)))(t)) }
	return read(cpus.FileName), read(memory.FileName)
}
