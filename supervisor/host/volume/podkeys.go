package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/disk/regularfile"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/podkeys"
)

var _ port.PodKeys = (*Volumes)(nil)

// maxCertificateFile bounds what is read of a file, in bytes. Chains have some kilobytes.
const maxCertificateFile = 1 << 20

// NewPodKey implements port.PodKeys.
func (h *Volumes) NewPodKey(ctx context.Context, keyType string, done func(port.PodKey, error)) {
	work := func(context.Context) (port.PodKey, error) { return podkeys.New(keyType) }
	hostcall.Get(ctx, "NewPodKey", keyType, work, done)
}

// WrittenCertificate implements port.PodKeys. Containers can't write to the volume, so it is as an agent left it.
func (h *Volumes) WrittenCertificate(
	ctx context.Context, at port.CertificateFiles, done func(*podspec.IssuedCertificate, error),
) {
	hostcall.Get(ctx, "WrittenCertificate", string(at.Pod)+"/"+at.Volume,
		func(context.Context) (*podspec.IssuedCertificate, error) { return h.writtenCertificate(at) }, done)
}

func (h *Volumes) writtenCertificate(at port.CertificateFiles) (*podspec.IssuedCertificate, error) {
	pod, err := agentdir.PodDir(string(at.Pod))
	if err == nil {
		err = agentdir.Element("volume name", at.Volume)
	}
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(pod, volumesDir, filesPlugin(&v1.Volume{
		VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}},
	}), at.Volume)
	root, err := h.pods.Root.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	paths := []string{at.Source.KeyPath, at.Source.CertificateChainPath}
	if at.Source.CredentialBundlePath != "" {
		paths = []string{at.Source.CredentialBundlePath}
	}
	var text []byte
	for _, path := range paths {
		if path == "" {
			return nil, nil // the key or the certificate is in no file
		}
		part, err := regularfile.In(root, path, maxCertificateFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		text = append(text, part...)
	}
	found, err := podkeys.Read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return found, nil
}
