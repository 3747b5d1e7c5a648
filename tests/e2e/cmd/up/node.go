package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// agentPatience is how long the agent may take to end after SIGTERM. It leaves its pods running,
// so that this is short.
const agentPatience = 10 * time.Second

// node is one run of the agent.
type node struct {
	repository string
	dir        string    // the agent's root directory
	lab        *lab.Lab  // nil: simulated runtime
	out        io.Writer // where the table goes

	binary string // of the agent
	agent  *lab.Process
}

func (n *node) logPath() string { return n.dir + ".log" }

// start builds the agent and runs it.
func (n *node) start(ctx context.Context) (err error) {
	defer check.Return(&err)
	n.binary = check.Must(lab.BuildTroupe(ctx, n.repository, false))
	if err := n.removeDir(); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	check.OK(os.MkdirAll(n.dir, 0o755))
	config := check.Must(n.writeConfig())
	log := check.Must(os.Create(n.logPath()))
	defer log.Close()
	args := []string{"node", "--root-dir", n.dir, "--config", config, "--container-log-links-dir", filepath.Join(n.dir, "links"),
		"--device-plugins-dir", filepath.Join(n.dir, "device-plugins"),
		"--pod-manifest-path", filepath.Join(n.repository, "docs/examples")}
	if n.lab == nil {
		args = append(args, "--runtime", "sim")
	} else {
		args = append(args, "--container-runtime-endpoint", n.lab.Endpoint())
	}
	cmd := exec.Command(n.binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if n.agent, err = lab.StartProcess(cmd); err != nil {
		return fmt.Errorf("start troupe: %w", err)
	}
	fmt.Printf("troupe node runs as process %d, its log is %s\n\n", n.agent.PID(), n.logPath())
	return nil
}

// writeConfig writes the agent's KubeletConfiguration. Container logs go under the root directory
// and not to /var/log/pods, which may be another agent's; so do the links to them. A disk that is nearly full,
// as those of developers are, evicts nothing. No chains of iptables stay behind.
func (n *node) writeConfig() (string, error) {
	file := n.dir + ".yaml"
	cgroupRoot := "/" // a simulated runtime has no cgroups
	if n.lab != nil {
		cgroupRoot = n.lab.CgroupRoot()
	}
	text := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: %s
podLogsDir: %s/logs
makeIPTablesUtilChains: false
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%"}
`, cgroupRoot, n.dir)
	return file, os.WriteFile(file, []byte(text), 0o644)
}

// died says how the agent ended, with its log's last lines.
func (n *node) died() error {
	text, err := os.ReadFile(n.logPath())
	if err != nil {
		text = []byte(err.Error())
	}
	const enough = 2000
	return fmt.Errorf("troupe node ended (%v); the end of its log:\n%s", n.agent.Err(), text[max(0, len(text)-enough):])
}

// cleanup ends the agent, removes the pods and what the agent and the runtime keep.
func (n *node) cleanup() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var err error
	if n.agent != nil {
		err = n.agent.End(ctx, syscall.SIGTERM, agentPatience)
	}
	if n.lab != nil {
		err = errors.Join(err, n.lab.Cleanup(ctx))
	}
	return errors.Join(err, n.removeDir())
}

// removeDir removes the agent's root directory. Never through a mount: what is behind one is not
// ours.
func (n *node) removeDir() error {
	if err := lab.Unmount(n.dir); err != nil {
		return err
	}
	return os.RemoveAll(n.dir)
}
