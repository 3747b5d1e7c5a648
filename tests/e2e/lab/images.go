package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/troupe-dev/troupe/tests/check"
)

// Names of the images that [Registry.PushDemoImages] serves.
const (
	PauseImage   = "registry.k8s.io/pause:3.10"
	WebImage     = "troupe.local/demo/web:v1"
	CrashImage   = "troupe.local/demo/crash:v1"
	WorkImage    = "troupe.local/demo/work:v1"
	BusyboxImage = "docker.io/library/busybox:latest" // only where Debian's busybox-static is installed
)

// programs are the images made of one program of tests/images.
var programs = map[string]string{
	PauseImage: "pause",
	WebImage:   "web",
	CrashImage: "crash",
	WorkImage:  "work",
}

// PushDemoImages builds the programs of tests/images, makes an image of each and serves it.
func (r *Registry) PushDemoImages(ctx context.Context, repository string) (err error) {
	defer check.Return(&err)
	var refs []string
	for ref := range programs {
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	for _, ref := range refs {
		image := check.Must(ProgramImage(ctx, repository, programs[ref]))
		check.OK(r.Push(ctx, ref, image))
	}
	image, err := busyboxImage()
	if errors.Is(err, exec.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.Push(ctx, BusyboxImage, image)
}

// Programs are the images that are made of one program each: the program's folder in tests/images
// by the image's name.
func Programs() map[string]string { return maps.Clone(programs) }

// ProgramImage builds tests/images/<program> and returns an image of it, the same each time.
func ProgramImage(ctx context.Context, repository, program string) (v1.Image, error) {
	return remember("image of "+program+" of "+repository, func() (v1.Image, error) {
		binary, err := BuildProgram(ctx, repository, program)
		if err != nil {
			return nil, err
		}
		return NewProgramImage(program, binary)
	})
}

// BuildProgram builds tests/images/<program> statically and returns the binary.
func BuildProgram(ctx context.Context, repository, program string) ([]byte, error) {
	path, err := ownProgram{name: program, pkg: "./tests/images/" + program}.build(ctx, repository)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// NewProgramImage is an image whose entrypoint is the static binary, named as the program.
func NewProgramImage(program string, binary []byte) (v1.Image, error) {
	return NewImage(programConfig(program), File{Path: program, Mode: 0o755, Data: binary})
}

// NewPlainProgramImage is NewProgramImage with a layer that is not compressed, for a machine on which that takes long.
func NewPlainProgramImage(program string, binary []byte) (v1.Image, error) {
	return NewPlainImage(programConfig(program), File{Path: program, Mode: 0o755, Data: binary})
}

// NewPlainImage is NewImage with a layer that is not compressed, for files with which that takes long.
func NewPlainImage(config v1.Config, files ...File) (v1.Image, error) {
	layer, err := layerOf(files)
	if err != nil {
		return nil, err
	}
	return imageOf(config, static.NewLayer(layer, types.OCIUncompressedLayer))
}

func programConfig(program string) v1.Config {
	return v1.Config{Entrypoint: []string{"/" + program}, Env: []string{"PATH=/"}, WorkingDir: "/"}
}

func busyboxImage() (_ v1.Image, err error) {
	defer check.Return(&err)
	file := check.Must(LookPath("busybox"))
	binary := check.Must(os.ReadFile(file))
	files := []File{{Path: "bin/busybox", Mode: 0o755, Data: binary}}
	for _, applet := range []string{"sh", "cat", "echo", "env", "false", "id", "kill", "ls", "mount", "nslookup", "ps", "sha256sum", "sleep", "stty", "tar", "test", "touch", "true", "wget"} {
		files = append(files, File{Path: "bin/" + applet, Link: "busybox"})
	}
	return NewImage(v1.Config{Cmd: []string{"sh"}, Env: []string{"PATH=/bin"}}, files...)
}

// File is one file of an image: Data, or a symbolic link if Link is set.
type File struct {
	Path string // relative to the image's root
	Mode fs.FileMode
	Data []byte
	Link string
}

// NewImage makes an image of one layer, for this machine's architecture. The same input gives the
// same digest. Besides the files it has the directories that users expect: /etc with passwd and
// group, /tmp, /proc, /dev, /sys.
func NewImage(config v1.Config, files ...File) (v1.Image, error) {
	layerTar, err := layerOf(files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layerTar)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("make image layer: %w", err)
	}
	return imageOf(config, layer)
}

func layerOf(files []File) ([]byte, error) {
	layer, err := tarOf(append([]File{
		{Path: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n")},
		{Path: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nuser:x:1000:\n")},
		{Path: "tmp/", Mode: 0o1777}, {Path: "proc/", Mode: 0o755}, {Path: "dev/", Mode: 0o755}, {Path: "sys/", Mode: 0o755},
	}, files...))
	if err != nil {
		return nil, fmt.Errorf("make image layer: %w", err)
	}
	return layer, nil
}

func imageOf(config v1.Config, layer v1.Layer) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	return mutate.ConfigFile(image, file)
}

// tarOf writes files, each after the directories above it. A path that ends in / is a directory.
func tarOf(files []File) (_ []byte, err error) {
	defer check.Return(&err)
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	made := map[string]bool{".": true}
	var parents func(dir string) error
	parents = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		if err := parents(path.Dir(dir)); err != nil {
			return err
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
	}
	for _, f := range files {
		check.OK(parents(path.Dir(path.Clean(f.Path))))
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: int64(f.Mode), Size: int64(len(f.Data))}
		switch {
		case f.Link != "":
			header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.Link, 0o777
		case f.Path[len(f.Path)-1] == '/':
			header.Typeflag = tar.TypeDir
			made[path.Clean(f.Path)] = true
		}
		check.OK(w.WriteHeader(header))
		check.Must(w.Write(f.Data))
	}
	check.OK(w.Close())
	return buf.Bytes(), nil
}
