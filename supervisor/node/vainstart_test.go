package node

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/supervisor/config/rootdir"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// socketDir is a directory with a path that is short enough for sockets.
func socketDir(t *testing.T) string {
	t.Helper()
	dir := must.Value(os.MkdirTemp("", "v"))(t)
	t.Cleanup(func() { must.Error(t, os.RemoveAll(dir)) })
	return dir
}

// TestToldToEndWhileItStarts: an agent that waits for its runtime ends as one that runs: not with an error, by which
// systemd would show that its stop went wrong.
func TestToldToEndWhileItStarts(t *testing.T) {
	l := must.Value(net.Listen("unix", filepath.Join(socketDir(t), "cri.sock")))(t)
	defer l.Close()
	o := simulated(t, "--runtime=cri", "--container-runtime-endpoint="+l.Addr().String())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	conn := must.Value(l.Accept())(t) // it is asked, and does not answer
	defer conn.Close()
	cancel()
	must.Error(t, <-ended)
}

// TestNotStartedWhenToldToEnd: no step is begun any more.
func TestNotStartedWhenToldToEnd(t *testing.T) {
	o := simulated(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Error(t, Run(ctx, o))
	must.None(t, must.Value(os.ReadDir(o.Config.Options().RootDir))(t), "made in the root directory")
}

// TestVainStartLeavesNoSocket: an agent that can't start gives back what it listened on.
func TestVainStartLeavesNoSocket(t *testing.T) {
	free := must.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	_, port, err := net.SplitHostPort(free.Addr().String())
	must.Fatal(t, errors.Join(err, free.Close()))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must.Fatal(t, clientcmd.WriteToFile(api.Config{
		Clusters:  map[string]*api.Cluster{"c": {Server: "http://127.0.0.1:1"}},
		AuthInfos: map[string]*api.AuthInfo{"u": {Token: "t"}}, CurrentContext: "x",
		Contexts: map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
	}, kubeconfig))
	o := simulated(t, "--healthz-port="+port, "--kubeconfig="+kubeconfig)
	root := o.Config.Options().RootDir
	hosttest.Write(t, filepath.Join(root, "plugins", "kubernetes.io", "csi"), "no directory")
	must.Says(t, Run(t.Context(), o), "open the directory of CSI volumes", "the start")
	for _, pattern := range []string{"*.sock", "*/*.sock"} {
		must.None(t, must.Value(filepath.Glob(filepath.Join(root, pattern)))(t), "sockets left")
	}
	again := must.Value(net.Listen("tcp", "127.0.0.1:"+port))(t)
	must.Error(t, again.Close())
}

// TestStartsOnAFullDisk: only an agent that runs makes room there.
func TestStartsOnAFullDisk(t *testing.T) {
	hosttest.NeedRoot(t)
	conn, root := systemd(t), socketDir(t)
	hosttest.Mount(t, "full", root)
	f := must.Value(os.Create(filepath.Join(root, "layers")))(t)
	for { // until there is no room for a byte
		if _, err := f.Write(make([]byte, 4<<10)); errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	must.Fatal(t, f.Close())
	o := simulated(t, "--root-dir="+root)
	cancel, ended := isUp(t, conn, o)
	cancel()
	must.Error(t, <-ended)
}

// TestSecondAgentChangesNoCgroup: it finds that the first has its root directory before it makes any.
func TestSecondAgentChangesNoCgroup(t *testing.T) {
	hosttest.NeedRoot(t)
	_, err := cgroup.New(&podcgroup.Settings{})
	hosttest.Need(t, "cgroups", err)
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, answers{})
	l := must.Value(net.Listen("unix", filepath.Join(socketDir(t), "cri.sock")))(t)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	parent := "troupe-" + filepath.Base(filepath.Dir(l.Addr().String()))
	o := simulated(t, "--runtime=cri", "--container-runtime-endpoint="+l.Addr().String(), "--cgroups-per-qos=true",
		"--cgroup-driver=cgroupfs", "--cgroup-root=/"+parent)
	first := must.Value(rootdir.Claim(o.Config.Options().RootDir))(t)
	defer first.Close()
	must.Says(t, Run(t.Context(), o), "is in use by", "the second agent")
	for _, pattern := range []string{parent, "*/" + parent} {
		made := must.Value(filepath.Glob(filepath.Join(cgroupRoot, pattern)))(t)
		must.None(t, made, "cgroups made")
	}
	server.Stop()
	must.Error(t, <-served)
}
