package podresources

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	alpha "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)

// alphaLister answers clients of v1alpha1, which knows only the devices of main containers. Monitors of GPUs that are
// still in use ask it.
type alphaLister struct {
	alpha.UnimplementedPodResourcesListerServer
	lister
}

// List implements alpha.PodResourcesListerServer. As with a kubelet, pods that have ended are in it, too.
func (l alphaLister) List(
	ctx context.Context, _ *alpha.ListPodResourcesRequest,
) (*alpha.ListPodResourcesResponse, error) {
	pods, err := l.Pods(ctx, "", "")
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	own, err := l.own()
	if err != nil {
		return nil, err
	}
	out := &alpha.ListPodResourcesResponse{}
	for _, p := range pods {
		one := &alpha.PodResources{Name: p.Name, Namespace: p.Namespace}
		for i := range p.Spec.Containers {
			c := &alpha.ContainerResources{Name: p.Spec.Containers[i].Name}
			for _, d := range devices(own.devices.Of(p.UID, c.GetName())) {
				c.Devices = append(c.Devices,
					&alpha.ContainerDevices{ResourceName: d.GetResourceName(), DeviceIds: d.GetDeviceIds()})
			}
			one.Containers = append(one.Containers, c)
		}
		out.PodResources = append(out.PodResources, one)
	}
	return out, nil
}
