package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
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
	port := freePort(t)
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

// TestVainStartChangesNoCgroup: an agent that can't start finds that before it makes cgroups, which another agent has too.
func TestVainStartChangesNoCgroup(t *testing.T) {
	hosttest.NeedRoot(t)
	_, err := cgroup.New(&podcgroup.Settings{})
	hosttest.Need(t, "cgroups", err)
	endpoint := served(t, answers{})
	other := must.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer other.Close()
	_, port, err := net.SplitHostPort(other.Addr().String())
	must.Fatal(t, err)
	this := fmt.Sprintf("%s (process %d)", filepath.Base(os.Args[0]), os.Getpid())
	for name, tt := range map[string]struct {
		args  []string
		spoil func(t *testing.T, root string)
		want  string
	}{
		"another agent has its root directory": {
			spoil: func(t *testing.T, root string) {
				first := must.Value(rootdir.Claim(root))(t)
				t.Cleanup(func() { must.Error(t, first.Close()) })
			},
			want: "is in use by",
		},
		"a kubelet has its port": {
			args: []string{"--enable-server", "--address=127.0.0.1", "--port=" + port, "--authentication-token-webhook=false",
				"--authorization-mode=AlwaysAllow"},
			want: "port " + port + " is in use by " + this + ": stop that, or choose another port",
		},
		"its read-only port": {
			args: []string{"--address=127.0.0.1", "--read-only-port=" + port},
			want: "readOnlyPort " + port + " is in use by " + this + ": stop that, or choose another readOnlyPort",
		},
		"its address is another machine's": {
			args: []string{"--address=192.0.2.1", "--read-only-port=" + port}, want: "choose another address or port",
		},
		"a file of its port": {
			args: []string{"--enable-server", "--authentication-token-webhook=false", "--authorization-mode=AlwaysAllow",
				"--client-ca-file=/not/there"},
			want: "clientCAFile /not/there: ",
		},
		"a state of CPUs that it can't go on with": {
			spoil: func(t *testing.T, root string) {
				own := cpus.State{"u1": {"app": cpuset.New(1)}}
				s := cpus.File{Policy: cpus.Static, Shared: cpuset.New(0), Own: own}
				hosttest.Write(t, filepath.Join(root, cpus.FileName), string(s.Format()))
			},
			want: "the state of the CPU manager",
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := "troupe-" + filepath.Base(socketDir(t))
			o := simulated(t, append(tt.args, "--runtime=cri", "--container-runtime-endpoint="+endpoint, "--cgroups-per-qos=true",
				"--cgroup-driver=cgroupfs", "--cgroup-root=/"+parent)...)
			if tt.spoil != nil {
				tt.spoil(t, o.Config.Options().RootDir)
			}
			must.Says(t, Run(t.Context(), o), tt.want, "the start")
			for _, pattern := range []string{parent, "*/" + parent} {
				made := must.Value(filepath.Glob(filepath.Join(cgroupRoot, pattern)))(t)
				must.None(t, made, "cgroups made")
			}
		})
	}
}

// served is the endpoint of a container runtime that is there until the test ends.
func served(t *testing.T, runtime runtimeapi.RuntimeServiceServer) string {
	t.Helper()
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, runtime)
	l := must.Value(net.Listen("unix", filepath.Join(socketDir(t), "cri.sock")))(t)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		must.Error(t, <-ended)
	})
	return l.Addr().String()
}

// freePort is a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	free := must.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	_, port, err := net.SplitHostPort(free.Addr().String())
	must.Fatal(t, errors.Join(err, free.Close()))
	return port
}
