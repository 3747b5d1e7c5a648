package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	registry "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// images makes, for each machine that the node agent runs on, what Talos, Typhoon and kind take the kubelet from: an
// image with kubelet as its entry point and the programs that it runs for volumes and host ports. It is an archive in
// the OCI image layout, for ctr images import and skopeo.
func images(ctx context.Context, r release) error {
	for _, t := range r.nodes() {
		if err := r.image(ctx, t); err != nil {
			return fmt.Errorf("image for %s: %w", t, err)
		}
	}
	return nil
}

func (r release) image(ctx context.Context, t target) error {
	work, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a directory for what is in between
	base, list, err := debian(ctx, t.arch, work)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.file("image-"+t.arch+".packages"), []byte(list), 0o644); err != nil {
		return err
	}
	agent, err := r.agentLayer(t)
	if err != nil {
		return err
	}
	plain := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(plain, base, agent)
	if err != nil {
		return err
	}
	image, err = mutate.ConfigFile(image, r.config(image, t))
	if err != nil {
		return err
	}
	dir := filepath.Join(work, "layout")
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendImage(image, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name":          imageName + ":v" + r.version,
	})); err != nil {
		return err
	}
	return r.archive(dir, r.file(fmt.Sprintf("kubelet-%s-%s.oci.tar", r.version, t)))
}

func (r release) config(image registry.Image, t target) *registry.ConfigFile {
	c, err := image.ConfigFile()
	if err != nil {
		c = &registry.ConfigFile{}
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = t.system, t.arch, registry.Time{Time: r.date}
	c.Config = registry.Config{
		Entrypoint: []string{"/usr/local/bin/kubelet"},
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title": "kubelet", "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.source": home, "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	for i := range c.History {
		c.History[i].Created = registry.Time{Time: r.date}
	}
	return c
}

// agentLayer is the program, under both names, with its licenses.
func (r release) agentLayer(t target) (registry.Layer, error) {
	text, err := os.ReadFile(r.program(t))
	if err != nil {
		return nil, err
	}
	about, err := os.ReadFile(r.licenses(t))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		header tar.Header
		text   []byte
	}{
		{tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil},
		{tar.Header{Typeflag: tar.TypeReg, Name: "usr/local/bin/kubelet", Mode: 0o755}, text},
		{tar.Header{Typeflag: tar.TypeSymlink, Name: "usr/local/bin/troupe", Linkname: "kubelet", Mode: 0o777}, nil},
		{tar.Header{Typeflag: tar.TypeReg, Name: "usr/share/doc/troupe/copyright", Mode: 0o644}, about},
	} {
		f.header.ModTime, f.header.Size = r.date, int64(len(f.text))
		if err := w.WriteHeader(&f.header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return layerOf(b.Bytes())
}

func layerOf(uncompressed []byte) (registry.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(uncompressed)), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// archive writes a directory as a tar file whose bytes depend on nothing but what is in it.
func (r release) archive(dir, name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // closed below, if it was written
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		relative := filepath.ToSlash(strings.TrimPrefix(path, dir+string(filepath.Separator)))
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: relative + "/", Mode: 0o755, ModTime: r.date})
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: relative, Mode: 0o644, Size: int64(len(text)), ModTime: r.date,
		}); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return file.Close()
}
