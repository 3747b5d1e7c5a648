package csidriver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// serving is a driver that serves until the test ends.
func serving(t *testing.T, change func(*Config)) Config {
	t.Helper()
	lab.Need(t, Needs()...)
	// t.TempDir has too long a path for sockets.
	dir := check.Value(os.MkdirTemp("", "csi-"))(t)
	c := Config{
		Name: "dir.test", Node: "one", Dir: filepath.Join(dir, "d"), Socket: filepath.Join(dir, "csi.sock"),
		Control: filepath.Join(dir, "control.sock"), MaxVolumes: 8, Segments: map[string]string{"dir.test/zone": "a"},
	}
	if change != nil {
		change(&c)
	}
	d := check.Value(New(c))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		check.Error(t, errors.Join(<-ended, c.Clean(), os.RemoveAll(dir)))
	})
	check.Fatal(t, lab.Eventually(t.Context(), time.Minute, "the driver serves", c.Serves))
	return c
}

// TestSanity is the suite of csi-test, which a driver has to pass: with directories, with image files, as devices, and
// without attachment and staging.
//
//tier:all a test of the tests' own driver
func TestSanity(t *testing.T) {
	plain := func(*Config) {}
	for _, variant := range []struct {
		name   string
		driver func(*Config)
		change func(*sanity.TestConfig)
	}{
		{"directories", plain, func(*sanity.TestConfig) {}},
		{"images", plain, func(c *sanity.TestConfig) {
			c.TestVolumeParameters = map[string]string{imageParameter: "true"}
			c.IdempotentCount = 2
		}},
		{"devices", plain, func(c *sanity.TestConfig) { c.TestVolumeAccessType = "block" }},
		{"not staged", func(c *Config) { c.NoAttach, c.NoStage, c.MaxVolumes = true, true, 0 }, func(*sanity.TestConfig) {}},
	} {
		c := serving(t, variant.driver)
		s := sanity.NewTestConfig()
		dir := filepath.Dir(c.Socket)
		s.TargetPath, s.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "stage")
		s.TestVolumeSize, s.TestVolumeExpandSize = 16<<20, 32<<20
		s.TestNodeVolumeAttachLimit = true
		variant.change(&s)
		// The suite's own way to connect waits for a minute if the driver answers too soon. Without an address, it takes a
		// connection that is there.
		ginkgo.Describe(variant.name, func() { sanity.GinkgoTest(&s).Conn = connect(t, c) })
		t.Cleanup(func() {
			calls, err := c.Calls()
			if err != nil || len(calls) < 50 {
				t.Errorf("%s: %d calls are written down, %v", variant.name, len(calls), err)
			}
		})
	}
	gomega.RegisterFailHandler(ginkgo.Fail)
	_, reporter := ginkgo.GinkgoConfiguration()
	reporter.Succinct, reporter.NoColor = true, true
	ginkgo.RunSpecs(t, "sanity", reporter)
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Ginkgo's, which it has until the process ends.
		goleak.IgnoreTopFunction("github.com/onsi/ginkgo/v2/internal/interrupt_handler.(*InterruptHandler).registerForInterrupts.func2"))
}

func connect(t *testing.T, c Config) *grpc.ClientConn {
	t.Helper()
	conn := check.Value(grpc.NewClient("unix://"+c.Socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { check.Error(t, conn.Close()) })
	return conn
}

func client(t *testing.T, c Config) (csi.ControllerClient, csi.NodeClient) {
	t.Helper()
	conn := connect(t, c)
	return csi.NewControllerClient(conn), csi.NewNodeClient(conn)
}

var onFile = &csi.VolumeCapability{
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
}

// TestStrict: a caller that leaves a step out is refused, and that is written down.
//
//tier:all a test of the tests' own driver
func TestStrict(t *testing.T) {
	c := serving(t, nil)
	controller, node := client(t, c)
	created, err := controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "v", VolumeCapabilities: []*csi.VolumeCapability{onFile}})
	if err != nil {
		t.Fatal(err)
	}
	v := created.GetVolume().GetVolumeId()
	path := func(name string) string { return filepath.Join(filepath.Dir(c.Socket), name) }
	check.Fatal(t, os.Mkdir(path("stage"), 0o750))
	refused := func(what string, err error) {
		t.Helper()
		calls, other := c.Calls()
		if last := calls[len(calls)-1]; status.Code(err) != codes.FailedPrecondition || other != nil || last.Wrong == "" {
			t.Errorf("%s: %v; written down: %+v, %v", what, err, last, other)
		}
	}
	done := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	publish := &csi.NodePublishVolumeRequest{VolumeId: v, TargetPath: path("target"), StagingTargetPath: path("stage"), VolumeCapability: onFile}
	stage := &csi.NodeStageVolumeRequest{VolumeId: v, StagingTargetPath: path("stage"), VolumeCapability: onFile}
	unstage := &csi.NodeUnstageVolumeRequest{VolumeId: v, StagingTargetPath: path("stage")}
	detach := &csi.ControllerUnpublishVolumeRequest{VolumeId: v, NodeId: c.Node}

	_, err = node.NodeStageVolume(t.Context(), stage)
	refused("stage without attach", err)
	attached, err := controller.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: v, NodeId: c.Node, VolumeCapability: onFile})
	done("attach", err)
	_, err = node.NodeStageVolume(t.Context(), stage)
	refused("stage without the publish context", err)
	stage.PublishContext = attached.GetPublishContext()
	_, err = node.NodePublishVolume(t.Context(), publish)
	refused("publish without stage", err)
	_, err = node.NodeStageVolume(t.Context(), stage)
	done("stage", err)
	_, err = node.NodePublishVolume(t.Context(), publish)
	done("publish", err)
	_, err = node.NodeUnstageVolume(t.Context(), unstage)
	refused("unstage while published", err)
	_, err = controller.ControllerUnpublishVolume(t.Context(), detach)
	refused("detach while staged", err)
	_, err = controller.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: v})
	refused("delete while attached", err)
	_, err = node.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: v, TargetPath: path("target")})
	done("unpublish", err)
	_, err = node.NodeUnstageVolume(t.Context(), unstage)
	done("unstage", err)
	_, err = controller.ControllerUnpublishVolume(t.Context(), detach)
	done("detach", err)
	if left, err := c.Left(); err != nil || len(left) != 2 { // the volume and its data
		t.Errorf("left: %v, %v", left, err)
	}
	_, err = controller.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: v})
	done("delete", err)
	check.None(t, check.Value(c.Left())(t), "left")
}

// TestFaults: calls fail, hang and answer late as they are told to.
//
//tier:all a test of the tests' own driver
func TestFaults(t *testing.T) {
	c := serving(t, nil)
	controller, _ := client(t, c)
	create := func(name string) error {
		_, err := controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{onFile}})
		return err
	}
	has := func() int {
		k := check.Value(store{c.Dir + "/known"}.read())(t)
		return len(k.Volumes)
	}
	set := func(f Fault) {
		t.Helper()
		f.Method = "CreateVolume"
		check.Fatal(t, c.Set(t.Context(), f))
	}
	set(Fault{Code: codes.Internal, Message: "no", Times: 1})
	if err := create("a"); status.Code(err) != codes.Internal || has() != 0 {
		t.Errorf("a call that fails: %v, and %d volumes", err, has())
	}
	if err := create("a"); err != nil || has() != 1 {
		t.Errorf("the next call: %v, and %d volumes", err, has())
	}
	set(Fault{Code: codes.Internal, Message: "no", Done: true})
	if err := create("b"); status.Code(err) != codes.Internal || has() != 2 {
		t.Errorf("a call that fails after all is done: %v, and %d volumes", err, has())
	}
	set(Fault{Late: 50 * time.Millisecond})
	begun := time.Now()
	if err := create("c"); err != nil || time.Since(begun) < 50*time.Millisecond {
		t.Errorf("a late answer: %v after %v", err, time.Since(begun))
	}
	set(Fault{Hang: true})
	hung := make(chan error)
	go func() { hung <- create("d") }()
	select {
	case err := <-hung:
		t.Errorf("a call that hangs: %v", err)
	case <-time.After(50 * time.Millisecond):
		check.Fatal(t, c.End(t.Context(), "CreateVolume"))
		if err := <-hung; status.Code(err) != codes.Unavailable || has() != 3 {
			t.Errorf("a call that hung: %v, and %d volumes", err, has())
		}
	}
	check.Error(t, create("d"))
}

// TestMock: the mock driver of Kubernetes serves, and suffers the same faults. Calls that are made again and again do so only
// by name, and are written down then.
//
//tier:all a test of the tests' own driver
func TestMock(t *testing.T) {
	c := serving(t, func(c *Config) { c.Mock, c.NoAttach = true, true })
	controller, node := client(t, c)
	made := check.Value(controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: "a", CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 20}, VolumeCapabilities: []*csi.VolumeCapability{onFile},
	}))(t)
	stage := func() error {
		_, err := node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
			VolumeId: made.GetVolume().GetVolumeId(), StagingTargetPath: t.TempDir(), VolumeCapability: onFile,
		})
		return err
	}
	capabilities := func() error {
		_, err := node.NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
		return err
	}
	check.Error(t, stage())
	for _, method := range []string{"*", "NodeGetCapabilities"} {
		check.Fatal(t, c.Set(t.Context(), Fault{Method: method, Code: codes.Internal, Message: "no"}))
		want := map[bool]codes.Code{true: codes.Internal, false: codes.OK}
		check.Equal(t, status.Code(stage()), want[method == "*"], "with a fault of %s, NodeStageVolume answers", method)
		if got := status.Code(capabilities()); got != want[method != "*"] {
			t.Errorf("with a fault of %s, NodeGetCapabilities answers %v", method, got)
		}
		check.Fatal(t, c.End(t.Context(), method))
	}
	calls, err := c.Calls()
	if err != nil || len(calls) != 5 || calls[4].Method != "NodeGetCapabilities" {
		t.Errorf("written down: %v, %v", calls, err)
	}
}
