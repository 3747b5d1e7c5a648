package cluster

import (
	"fmt"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// monitor asks the agent what pods have.
func (b *bed) monitor(t *testing.T) podresources.PodResourcesListerClient {
	t.Helper()
	conn := check.Value(grpc.NewClient("unix://"+filepath.Join(b.Root(), "pod-resources", "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	return podresources.NewPodResourcesListerClient(conn)
}

// TestPodResources is what a monitor of devices asks: which pods are there, and what has each alone.
//
//tier:served
func TestPodResources(t *testing.T) {
	t.Parallel()
	b := started(t, "alone", onServed)
	b.create(t, b.pod("web", nil))
	b.awaitPod(t, "web", "is ready", ready)
	client := b.monitor(t)
	list := check.Value(client.List(t.Context(), &podresources.ListPodResourcesRequest{}))(t)
	if got, want := fmt.Sprint(list.GetPodResources()), fmt.Sprint([]*podresources.PodResources{
		{Name: "web", Namespace: b.name, Containers: []*podresources.ContainerResources{{Name: "app"}}},
	}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := client.Get(t.Context(), &podresources.GetPodResourcesRequest{PodName: "web", PodNamespace: b.name}); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(t.Context(), &podresources.GetPodResourcesRequest{PodName: "nobody", PodNamespace: b.name}); grpcstatus.Code(err) != codes.NotFound {
		t.Errorf("of a pod that is not there: %v", err)
	}
	if _, err := client.GetAllocatableResources(t.Context(), &podresources.AllocatableResourcesRequest{}); err != nil {
		t.Error(err)
	}
}
