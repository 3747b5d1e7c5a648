package cri

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

// BenchmarkList reads 100 pods of one container each. Both sides of the socket
// are in the figure.
func BenchmarkList(b *testing.B) {
	annotations := map[string]string{"io.kubernetes.container.restartCount": "0", "troupe.dev/container-spec-hash": "0123456789abcdef"}
	var sandboxes []*runtimeapi.PodSandbox
	var containers []*runtimeapi.Container
	for i := range 100 {
		uid := fmt.Sprintf("3f0c1111-0000-0000-0000-%012d", i)
		sandboxes = append(sandboxes, &runtimeapi.PodSandbox{Id: anID, Labels: labelled(uid, ""), Annotations: annotations})
		containers = append(containers, &runtimeapi.Container{Id: anID, PodSandboxId: anID, Labels: labelled(uid, "app"), Annotations: annotations})
	}
	f := &fakeRuntime{
		sandboxes:  func() ([]*runtimeapi.PodSandbox, error) { return sandboxes, nil },
		containers: func(*runtimeapi.ContainerFilter) []*runtimeapi.Container { return containers },
	}
	socket := filepath.Join(b.TempDir(), "cri.sock")
	listener := check.Value(net.Listen("unix", socket))(b)
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	c := check.Value(Dial(b.Context(), testConfig(socket)))(b)
	defer c.Close()
	b.ReportAllocs()
	done := make(chan error)
	for b.Loop() {
		c.List(b.Context(), "", func(_ observed.Runtime, err error) { done <- err })
		check.Fatal(b, <-done)
	}
}
