package lab

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/troupe-dev/troupe/tests/check"
)

// planeFile is what [SharePlane] tells of its control plane in .run/lab/plane.json.
type planeFile struct {
	// Address is the apiserver's, and Kubeconfig that of an administrator.
	Address    string `json:"address"`
	Kubeconfig string `json:"kubeconfig"`
	// Dir has the logs, and PKI keys and certificates.
	Dir string `json:"dir"`
	PKI string `json:"pki"`
	// Ports are those of the components.
	Ports planePorts `json:"ports"`
	// PID is that of the process that shares it, and Lender where it is asked for the control plane.
	PID    int    `json:"pid"`
	Lender string `json:"lender"`
	// Config is the fingerprint of its configuration.
	Config string `json:"config"`
}

func planeFileIn(repository string) string { return filepath.Join(repository, ".run/lab/plane.json") }

// errNoPlane: nobody shares one.
var errNoPlane = errors.New("no control plane is shared")

// readPlaneFile gives what is shared, if a test can take it that wants a control plane with this fingerprint.
func readPlaneFile(path, fingerprint string) (f planeFile, err error) {
	if os.Getenv("CI") == "true" {
		return f, errNoPlane // there, each run has its own
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return f, errNoPlane
	}
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		return f, fmt.Errorf("read %s: %w", path, err)
	}
	// A process of somebody else is there too.
	if err := syscall.Kill(f.PID, 0); f.PID <= 0 || errors.Is(err, syscall.ESRCH) {
		return f, fmt.Errorf("process %d of %s is gone", f.PID, path)
	}
	if f.Config != fingerprint {
		return f, errors.New("it has another configuration or release: end go tool task lab and start it again")
	}
	return f, nil
}

// write puts the file into place at once, so that nobody reads half of it.
func (f planeFile) write(path string) (err error) {
	defer check.Return(&err)
	text := check.Must(json.MarshalIndent(f, "", "  "))
	check.OK(os.WriteFile(path+".new", append(text, '\n'), 0o644))
	return os.Rename(path+".new", path)
}

// fingerprint is the same for control planes that differ only in where they are.
func (c *ControlPlaneConfig) fingerprint() (string, error) {
	somewhere := &ControlPlane{config: *c, store: store{dir: "/"}}
	somewhere.config.Dir = "/"
	all := map[string]any{"etcd": somewhere.etcdArgs(), "kube-apiserver": somewhere.apiserverArgs()}
	if c.ControllerManager {
		all["kube-controller-manager"] = somewhere.controllerArgs("")
	}
	if c.Scheduler {
		all["kube-scheduler"] = somewhere.schedulerArgs("")
	}
	for _, module := range []string{etcdModule, kubernetesModule} {
		v, err := version(c.Repository, e2eDir, module)
		if err != nil {
			return "", err
		}
		all[module] = v
	}
	text, err := json.Marshal(all)
	return fmt.Sprintf("%.8x", sha256.Sum256(text)), err
}
