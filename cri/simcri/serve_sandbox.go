package simcri

import (
	"context"
	"maps"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/labels"
)

// podOfConfig converts a sandbox's configuration to a pod. Its labels and annotations are the
// sandbox's.
func podOfConfig(c *runtimev1.PodSandboxConfig) *v1.Pod {
	m := c.GetMetadata()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: m.GetName(), Namespace: m.GetNamespace(), UID: types.UID(m.GetUid()),
		Labels: c.GetLabels(), Annotations: c.GetAnnotations(),
	}}
	network := c.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork()
	p.Spec.HostNetwork = network == runtimev1.NamespaceMode_NODE
	return p
}

func (s *server) RunPodSandbox(
	ctx context.Context, q *runtimev1.RunPodSandboxRequest,
) (*runtimev1.RunPodSandboxResponse, error) {
	m := q.GetConfig().GetMetadata()
	if m.GetName() == "" || m.GetNamespace() == "" {
		return nil, status.Error(codes.InvalidArgument, "sandbox config: metadata needs name and namespace")
	}
	call := port.RunPodSandbox{
		Pod: podOfConfig(q.GetConfig()), Attempt: m.GetAttempt(), RuntimeHandler: q.GetRuntimeHandler(),
	}
	id, err := wait(func(done func(string, error)) { s.r.runPodSandbox(ctx, call, true, done) })
	if err != nil {
		return nil, err
	}
	return &runtimev1.RunPodSandboxResponse{PodSandboxId: id}, nil
}

func (s *server) StopPodSandbox(
	ctx context.Context, q *runtimev1.StopPodSandboxRequest,
) (*runtimev1.StopPodSandboxResponse, error) {
	id := s.sandboxID(q.GetPodSandboxId())
	return &runtimev1.StopPodSandboxResponse{}, waitErr(func(done func(error)) { s.r.StopPodSandbox(ctx, id, done) })
}

// UpdatePodSandboxResources changes nothing.
func (s *server) UpdatePodSandboxResources(
	ctx context.Context, q *runtimev1.UpdatePodSandboxResourcesRequest,
) (*runtimev1.UpdatePodSandboxResourcesResponse, error) {
	u := port.UpdateSandbox{ID: s.sandboxID(q.GetPodSandboxId())}
	return &runtimev1.UpdatePodSandboxResourcesResponse{},
		waitErr(func(done func(error)) { s.r.UpdateSandbox(ctx, u, done) })
}

func (s *server) RemovePodSandbox(
	ctx context.Context, q *runtimev1.RemovePodSandboxRequest,
) (*runtimev1.RemovePodSandboxResponse, error) {
	id := s.sandboxID(q.GetPodSandboxId())
	return &runtimev1.RemovePodSandboxResponse{}, waitErr(func(done func(error)) { s.r.RemovePodSandbox(ctx, id, done) })
}

func (s *server) PodSandboxStatus(
	ctx context.Context, q *runtimev1.PodSandboxStatusRequest,
) (*runtimev1.PodSandboxStatusResponse, error) {
	id := s.sandboxID(q.GetPodSandboxId())
	if _, err := wait(func(done func(observed.Sandbox, error)) { s.r.PodSandboxStatus(ctx, id, done) }); err != nil {
		return nil, err
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	box := s.r.sandboxes[id]
	if box == nil {
		return nil, status.Error(codes.NotFound, id+": no such sandbox")
	}
	out := &runtimev1.PodSandboxStatusResponse{Status: box.status(s.r), Timestamp: s.r.now()}
	for c := box.pod.containers; c != nil; c = c.next {
		if c.sandbox == box && c.state != containerMaking {
			out.ContainersStatuses = append(out.ContainersStatuses, c.status())
		}
	}
	return out, nil
}

func (s *server) listSandboxes(ctx context.Context, f *runtimev1.PodSandboxFilter) ([]*runtimev1.PodSandbox, error) {
	if _, err := s.list(ctx, f.GetLabelSelector()); err != nil {
		return nil, err
	}
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*runtimev1.PodSandbox
	for _, p := range r.sortedPods() {
		for box := p.sandboxes; box != nil; box = box.next {
			if box.state == sandboxMaking || !strings.HasPrefix(box.id, f.GetId()) ||
				f.GetState() != nil && f.GetState().GetState() != box.criState() {
				continue
			}
			l := box.labels()
			if !selected(l, f.GetLabelSelector()) {
				continue
			}
			st := box.status(r)
			out = append(out, &runtimev1.PodSandbox{
				Id: st.Id, Metadata: st.Metadata, State: st.State, CreatedAt: st.CreatedAt,
				Labels: st.Labels, Annotations: st.Annotations, RuntimeHandler: st.RuntimeHandler,
			})
		}
	}
	return out, nil
}

// list makes the port's call for a list of the CRI.
func (s *server) list(ctx context.Context, selector map[string]string) (observed.Runtime, error) {
	return wait(func(done func(observed.Runtime, error)) { s.r.List(ctx, selector[labels.PodUID], done) })
}

func (s *server) ListPodSandbox(
	ctx context.Context, q *runtimev1.ListPodSandboxRequest,
) (*runtimev1.ListPodSandboxResponse, error) {
	items, err := s.listSandboxes(ctx, q.GetFilter())
	return &runtimev1.ListPodSandboxResponse{Items: items}, err
}

func (s *server) StreamPodSandboxes(
	q *runtimev1.StreamPodSandboxesRequest, stream grpc.ServerStreamingServer[runtimev1.StreamPodSandboxesResponse],
) error {
	items, err := s.listSandboxes(stream.Context(), q.GetFilter())
	return inPieces(items, err, func(some []*runtimev1.PodSandbox) error {
		return stream.Send(&runtimev1.StreamPodSandboxesResponse{PodSandboxes: some})
	})
}

// pieceItems is how many items one answer of a streamed list has.
const pieceItems = 500

func inPieces[T any](items []T, err error, send func([]T) error) error {
	for err == nil && len(items) > 0 {
		n := min(pieceItems, len(items))
		err = send(items[:n])
		items = items[n:]
	}
	return err
}

func selected(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func (s *sandbox) criState() runtimev1.PodSandboxState {
	if s.state == sandboxReady {
		return runtimev1.PodSandboxState_SANDBOX_READY
	}
	return runtimev1.PodSandboxState_SANDBOX_NOTREADY
}

// labels are those it was made with, or those that an agent would have set.
func (s *sandbox) labels() map[string]string {
	if s.served {
		return s.of.labels
	}
	l := make(map[string]string, len(s.of.labels)+3)
	maps.Copy(l, s.of.labels)
	namePod(l, s.pod.ref)
	return l
}

func namePod(l map[string]string, ref observed.PodRef) {
	l[labels.PodName], l[labels.PodNamespace], l[labels.PodUID] = ref.Name, ref.Namespace, string(ref.UID)
}

func (s *sandbox) status(r *Runtime) *runtimev1.PodSandboxStatus {
	network := runtimev1.NamespaceMode_POD
	if s.of.hostNetwork {
		network = runtimev1.NamespaceMode_NODE
	}
	out := &runtimev1.PodSandboxStatus{
		Id: s.id,
		Metadata: &runtimev1.PodSandboxMetadata{
			Name: s.pod.ref.Name, Namespace: s.pod.ref.Namespace, Uid: string(s.pod.ref.UID), Attempt: s.attempt,
		},
		State: s.criState(), CreatedAt: s.createdAt, Labels: s.labels(), Annotations: s.of.annotations,
		RuntimeHandler: s.of.runtimeHandler,
		Network:        &runtimev1.PodSandboxNetworkStatus{},
		Linux: &runtimev1.LinuxPodSandboxStatus{Namespaces: &runtimev1.Namespace{
			Options: &runtimev1.NamespaceOption{Network: network},
		}},
	}
	if s.address != 0 {
		out.Network.Ip = r.addresses.ip(s.address).String()
	}
	return out
}
