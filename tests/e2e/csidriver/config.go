package csidriver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// Config says what the driver is. All of the first part must be set.
type Config struct {
	// Name is the driver's, such as dir.test.
	Name string
	// Node is the node's ID.
	Node string
	// Dir holds volumes, snapshots, what the driver knows of them, and the record of calls.
	Dir string
	// Socket is where it serves CSI, Control where a test says what is to fail.
	Socket, Control string

	// Registry is the directory in which a node agent looks for drivers. If empty, no agent is told of it.
	Registry string
	// MaxVolumes is how many volumes the node takes; 0: any number.
	MaxVolumes int64
	// Segments say where the node is, and Capacity how many bytes the driver has; 0: 1 TiB.
	Segments map[string]string
	Capacity int64
	// NoAttach leaves out ControllerPublishVolume, NoStage NodeStageVolume.
	NoAttach, NoStage bool
	// NodeExpands leaves out ControllerExpandVolume: NodeExpandVolume alone makes volumes larger.
	NodeExpands bool
	// Mock has the mock driver of Kubernetes answer, which mounts nothing, and makes volumes only by name. Faults are as
	// with this one.
	Mock bool
	// MountGroup has the driver, not the agent, give files to the pod's group.
	MountGroup bool
}

// Validate reports what is missing.
func (c Config) Validate() error {
	if c.Name == "" || c.Node == "" || c.Dir == "" || c.Socket == "" || c.Control == "" {
		return errors.New("a CSI driver needs a Name, a Node, a Dir, a Socket and a Control socket")
	}
	return nil
}

// ReadConfig reads a configuration that Write has written.
func ReadConfig(path string) (c Config, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("read the configuration of a CSI driver: %w", err)
	}
	return c, c.Validate()
}

// Write writes the configuration into the driver's directory and returns the file's path.
func (c Config) Write() (path string, err error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	path = filepath.Join(c.Dir, c.Node+".json")
	return path, errors.Join(os.MkdirAll(c.Dir, 0o755), os.WriteFile(path, text, 0o600))
}

// Serves is nil if a driver serves.
func (c Config) Serves() error {
	conn, err := net.Dial("unix", c.Socket)
	if err == nil {
		err = conn.Close()
	}
	return err
}

func (c Config) callsFile() string { return filepath.Join(c.Dir, "calls") }

func (c Config) capacity() int64 {
	if c.Capacity == 0 {
		return 1 << 40
	}
	return c.Capacity
}
