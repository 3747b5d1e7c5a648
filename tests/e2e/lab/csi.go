package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// csiDir has the sidecars of CSI drivers, in a module of their own: they want another client of Kubernetes than these
// tests.
const csiDir = "tests/tools/csi"

// BuildCSISidecars builds csi-provisioner, csi-attacher, csi-resizer, csi-snapshotter and snapshot-controller into one
// directory below .run/bin of the repository, unless they are there, and returns it. The first time takes some minutes on
// two cores. Log, if not nil, is told when it builds.
func BuildCSISidecars(ctx context.Context, repository string, log io.Writer) (dir string, err error) {
	file, err := modules(repository, csiDir)
	if err != nil {
		return "", fmt.Errorf("find the CSI sidecars: %w", err)
	}
	name, programs := "csi", []string{}
	for _, tool := range file.Tool {
		version, err := versionOf(file, tool.Path)
		if err != nil {
			return "", err
		}
		name += "-" + version
		programs = append(programs, filepath.Base(tool.Path))
	}
	return built{
		name: name, takes: "some minutes", module: csiDir, programs: programs, env: withoutC,
		args: []string{"-ldflags", "-s -w"}, packages: []string{"tool"},
	}.dir(ctx, repository, log)
}

// BuildCSIDriver builds the driver of package csidriver and returns the binary's path.
func BuildCSIDriver(ctx context.Context, repository string) (path string, err error) {
	return ownProgram{name: "csidriver", module: e2eDir, pkg: "./cmd/csidriver"}.build(ctx, repository)
}

// SnapshotCRDs are the manifests of the kinds of snapshots, from the module of the snapshotter.
func SnapshotCRDs(ctx context.Context, repository string) (manifests [][]byte, err error) {
	dir, err := moduleDir(ctx, filepath.Join(repository, csiDir), "github.com/kubernetes-csi/external-snapshotter/client/v8")
	if err != nil {
		return nil, fmt.Errorf("find the kinds of snapshots: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "config/crd/snapshot.storage.k8s.io_*.yaml"))
	if err == nil && len(files) != 3 {
		err = fmt.Errorf("there are %d kinds of snapshots in %s", len(files), dir)
	}
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, text)
	}
	return manifests, nil
}

// Sidecars are the controllers of a cluster's volumes that are not among those of Kubernetes: those of a driver, or that of
// snapshots. They run as an administrator, on this machine. One that ends is started again, as a container is: most end when
// their driver does.
type Sidecars struct {
	stop context.CancelFunc
	kept sync.WaitGroup
	mu   sync.Mutex
	err  error // of one that could not be kept
	logs []string
}

// StartSidecars starts the sidecars of the driver at a socket, with logs in dir.
func (c *ControlPlane) StartSidecars(ctx context.Context, dir, socket string) (*Sidecars, error) {
	address := "--csi-address=" + socket
	return c.startSidecars(ctx, dir, map[string][]string{
		"csi-provisioner": {address, "--extra-create-metadata", "--default-fstype=ext4", "--retry-interval-start=100ms"},
		"csi-attacher":    {address, "--default-fstype=ext4", "--retry-interval-start=100ms"},
		"csi-resizer":     {address, "--retry-interval-start=100ms"},
		"csi-snapshotter": {address, "--retry-interval-start=100ms"},
	})
}

// StartSnapshotController starts what a cluster has one of. The kinds of snapshots must be there.
func (c *ControlPlane) StartSnapshotController(ctx context.Context, dir string) (*Sidecars, error) {
	return c.startSidecars(ctx, dir, map[string][]string{"snapshot-controller": {"--retry-interval-start=100ms"}})
}

func (c *ControlPlane) startSidecars(
	ctx context.Context, dir string, args map[string][]string,
) (_ *Sidecars, err error) {
	defer check.Return(&err)
	binaries := check.Must(BuildCSISidecars(ctx, c.config.Repository, c.config.Log))
	kubeconfig := check.Must(c.KubeconfigOf(Identity{User: "csi-sidecars", Groups: []string{"system:masters"}}))
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Sidecars{stop: stop}
	for name, flags := range args {
		p := c.component(name, filepath.Join(binaries, name), append([]string{
			"--kubeconfig=" + kubeconfig, "--kube-api-qps=100", "--kube-api-burst=200",
		}, flags...), nil)
		p.logPath = filepath.Join(dir, name+".log")
		s.logs = append(s.logs, p.logPath)
		s.kept.Go(func() {
			if err := p.keep(ctx); err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.err = errors.Join(s.err, err)
			}
		})
	}
	return s, nil
}

// mostEnds is how often a component may end that is to be kept.
const mostEnds = 20

// keep runs a component until ctx ends, again and again if need be.
func (p *component) keep(ctx context.Context) error {
	for range mostEnds {
		if err := p.run(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			return p.end(ending, syscall.SIGTERM)
		case <-p.process.Exited():
		}
	}
	return fmt.Errorf("%s ends again and again: %w\n%s", p.name, p.process.Err(), tail(p.logPath, 2000))
}

// Stop ends all. Its error says which could not be kept running.
func (s *Sidecars) Stop() error {
	s.stop()
	s.kept.Wait()
	return s.err
}

// LogTails is the end of the log of each, at most n bytes of each.
func (s *Sidecars) LogTails(n int) (text string) {
	for _, path := range s.logs {
		text += fmt.Sprintf("--- %s\n%s\n", path, tail(path, n))
	}
	return text
}
