package simcri

import (
	"context"

	"google.golang.org/grpc"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

func (s *server) PullImage(ctx context.Context, q *runtimev1.PullImageRequest) (*runtimev1.PullImageResponse, error) {
	call := port.PullImage{Image: q.GetImage().GetImage()}
	if c := q.GetSandboxConfig(); c != nil {
		call.Pod = podOfConfig(c)
	}
	if a := q.GetAuth(); a != nil {
		call.Auth = &port.ImageAuth{
			Username: a.GetUsername(), Password: a.GetPassword(), Auth: a.GetAuth(),
			ServerAddress: a.GetServerAddress(), IdentityToken: a.GetIdentityToken(), RegistryToken: a.GetRegistryToken(),
		}
	}
	ref, err := wait(func(done func(string, error)) { s.r.PullImage(ctx, call, done) })
	if err != nil {
		return nil, err
	}
	return &runtimev1.PullImageResponse{ImageRef: ref}, nil
}

func (s *server) ImageStatus(
	ctx context.Context, q *runtimev1.ImageStatusRequest,
) (*runtimev1.ImageStatusResponse, error) {
	img, err := wait(func(done func(*runtimev1.Image, error)) {
		s.r.ImageStatus(ctx, q.GetImage().GetImage(), func(seen observed.Image, ok bool, err error) {
			if !ok {
				done(nil, err)
				return
			}
			done(criImage(seen), err)
		})
	})
	if err != nil {
		return nil, err
	}
	return &runtimev1.ImageStatusResponse{Image: img}, nil
}

func (s *server) listImages(ctx context.Context, f *runtimev1.ImageFilter) ([]*runtimev1.Image, error) {
	all, err := wait(func(done func([]observed.Image, error)) { s.r.ListImages(ctx, done) })
	if err != nil {
		return nil, err
	}
	only := ""
	if name := f.GetImage().GetImage(); name != "" {
		s.r.mu.Lock()
		img := s.r.findImage(name)
		s.r.mu.Unlock()
		if img == nil {
			return nil, nil
		}
		only = img.id
	}
	var out []*runtimev1.Image
	for _, img := range all {
		if only == "" || img.ID == only {
			out = append(out, criImage(img))
		}
	}
	return out, nil
}

func (s *server) ListImages(
	ctx context.Context, q *runtimev1.ListImagesRequest,
) (*runtimev1.ListImagesResponse, error) {
	images, err := s.listImages(ctx, q.GetFilter())
	return &runtimev1.ListImagesResponse{Images: images}, err
}

func (s *server) StreamImages(
	q *runtimev1.StreamImagesRequest, stream grpc.ServerStreamingServer[runtimev1.StreamImagesResponse],
) error {
	images, err := s.listImages(stream.Context(), q.GetFilter())
	return inPieces(images, err, func(some []*runtimev1.Image) error {
		return stream.Send(&runtimev1.StreamImagesResponse{Images: some})
	})
}

func (s *server) RemoveImage(
	ctx context.Context, q *runtimev1.RemoveImageRequest,
) (*runtimev1.RemoveImageResponse, error) {
	return &runtimev1.RemoveImageResponse{},
		waitErr(func(done func(error)) { s.r.RemoveImage(ctx, q.GetImage().GetImage(), done) })
}

// imageFilesystem is the shown path of the simulated images; it does not exist.
const imageFilesystem = "/var/lib/simcri"

func (s *server) ImageFsInfo(context.Context, *runtimev1.ImageFsInfoRequest) (*runtimev1.ImageFsInfoResponse, error) {
	if err := s.up(); err != nil {
		return nil, err
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var used, count uint64
	for _, img := range s.r.listImages() {
		used += img.size
		count++
	}
	usage := []*runtimev1.FilesystemUsage{{
		Timestamp: s.r.now(), FsId: &runtimev1.FilesystemIdentifier{Mountpoint: imageFilesystem},
		UsedBytes: &runtimev1.UInt64Value{Value: used}, InodesUsed: &runtimev1.UInt64Value{Value: count},
	}}
	return &runtimev1.ImageFsInfoResponse{ImageFilesystems: usage, ContainerFilesystems: usage}, nil
}

func criImage(img observed.Image) *runtimev1.Image {
	out := &runtimev1.Image{
		Id: img.ID, RepoTags: img.RepoTags, RepoDigests: img.RepoDigests, Size: img.SizeBytes,
		Username: img.Username, Pinned: img.Pinned, Spec: &runtimev1.ImageSpec{Image: img.ID},
	}
	if img.UID != nil {
		out.Uid = &runtimev1.Int64Value{Value: *img.UID}
	}
	return out
}
