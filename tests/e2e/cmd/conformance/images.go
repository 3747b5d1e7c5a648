package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// curl is what the suite calls in agnhost to get a page.
const curl = `#!/bin/sh
time=30
while [ $# -gt 1 ]; do
  case $1 in --connect-timeout | --max-time | -m) time=$2 ;; esac
  shift
done
exec timeout "$time" wget -q -O - "$1" # with -T, the wget of Debian's static busybox crashes
`

// nmeter prints the time of day with milliseconds, which is what the suite calls nmeter -d0 '%3t' for. Debian's busybox
// has none, and its date knows no fractions.
const nmeter = `#!/bin/sh
adjtimex | awk '/tv_sec/ {s = $2 % 86400} /tv_usec/ {u = $2}
	END {printf "%02d:%02d:%02d.%03d\n", s / 3600, s % 3600 / 60, s % 60, u / 1000}'
`

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// pushImages serves the images of the suite by their names, which it returns. Each is Debian's busybox and, where the
// suite runs a program of Kubernetes, that program, built of the release's source.
func pushImages(ctx context.Context, r *lab.Registry, suite lab.NodeSuite, repository string) (_ []string, err error) {
	defer check.Return(&err)
	common := check.Must(base())
	with := func(config v1.Config, files ...lab.File) v1.Image {
		config.Env = []string{searchPath}
		return check.Must(lab.NewPlainImage(config, slices.Concat(common, files)...))
	}
	pause := check.Must(lab.ProgramImage(ctx, repository, "pause"))
	program := func(name, file string, mode os.FileMode) lab.File {
		return lab.File{Path: name, Mode: mode, Data: check.Must(os.ReadFile(file))}
	}
	porter := filepath.Join(suite.Source, "test/images/agnhost/porter")
	agnhost := with(v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}}, append(check.Must(served(pause)),
		program("agnhost", suite.Agnhost, 0o755), lab.File{Path: "agnhost-2", Link: "agnhost"},
		program("localhost.crt", filepath.Join(porter, "localhost.crt"), 0o644),
		program("localhost.key", filepath.Join(porter, "localhost.key"), 0o644),
		lab.File{Path: "uploads/", Mode: 0o777}, lab.File{Path: "usr/bin/curl", Mode: 0o755, Data: []byte(curl)})...)
	busybox := with(v1.Config{Cmd: []string{"sh"}})
	const pages = "usr/share/nginx/html"
	// The first process of a container ends at a signal only if it says so, and httpd does not.
	const serve = "trap exit TERM; httpd -f -p 80 -h /" + pages + " & wait"
	nginx := with(v1.Config{Entrypoint: []string{"sh", "-c", serve}},
		lab.File{Path: pages + "/index.html", Mode: 0o644, Data: []byte("nginx\n")})
	all := map[string]v1.Image{
		"Agnhost": agnhost, "AgnhostPrev": agnhost, "BusyBox": busybox, "GlibcDnsTesting": busybox, "IpcUtils": busybox,
		"Kitten": busybox, "Nginx": nginx, "NginxNew": nginx, "Pause": pause,
		"NonRoot":            with(v1.Config{Cmd: []string{"sh"}, User: "1234"}),
		"Nonewprivs":         with(v1.Config{Cmd: []string{"nnp"}}, program("usr/local/bin/nnp", suite.Nonewprivs, 0o6755)),
		"SampleDevicePlugin": with(v1.Config{Entrypoint: []string{"/plugin"}}, program("plugin", suite.DevicePlugin, 0o755)),
	}
	names := []string{lab.PauseImage}
	check.OK(r.Push(ctx, lab.PauseImage, pause))
	for of, image := range all {
		if name := suite.Images[of]; name != "" { // else this release has none
			// Specs replace one by another, and look which one runs.
			config := check.Must(image.ConfigFile()).Config
			config.Labels = map[string]string{"name": name}
			image = check.Must(mutate.Config(image, config))
			check.OK(r.Push(ctx, name, image))
			names = append(names, name)
		}
	}
	return names, nil
}

// served is an image as the registry in agnhost has it, by the name pause:testing.
func served(image v1.Image) (files []lab.File, err error) {
	defer check.Return(&err)
	const at = "var/registry/pause/"
	add := func(kind string, digest v1.Hash, text []byte) {
		name := path.Join(at, kind, digest.Algorithm, digest.Hex[:2], digest.Hex, "data")
		files = append(files, lab.File{Path: name, Mode: 0o644, Data: text})
	}
	digest := check.Must(image.Digest())
	files = append(files, lab.File{Path: at + "manifests/testing", Mode: 0o644, Data: []byte(digest.String())})
	add("manifests", digest, check.Must(image.RawManifest()))
	add("blobs", check.Must(image.ConfigName()), check.Must(image.RawConfigFile()))
	for _, layer := range check.Must(image.Layers()) {
		content := check.Must(layer.Compressed())
		add("blobs", check.Must(layer.Digest()), check.Must(io.ReadAll(content)))
		check.OK(content.Close())
	}
	return files, nil
}

// base is busybox with all that it can be called as, and the users that the suite expects.
func base() (files []lab.File, err error) {
	defer check.Return(&err)
	busybox := check.Must(lab.LookPath("busybox"))
	list := check.Must(exec.Command(busybox, "--list").Output())
	// Specs look in a shell for variables whose names no shell can have. bash passes them on.
	bash, err := lab.LookPath("bash-static")
	if err != nil {
		return nil, fmt.Errorf("the shell of the images (Debian's package bash-static): %w", err)
	}
	files = []lab.File{
		{Path: "bin/busybox", Mode: 0o755, Data: check.Must(os.ReadFile(busybox))},
		{Path: "bin/bash", Mode: 0o755, Data: check.Must(os.ReadFile(bash))}, {Path: "bin/sh", Link: "bash"},
		{Path: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/bin/sh\n" +
			"user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n")},
		{Path: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nuser-defined-in-image:x:1000:\n" +
			"group-defined-in-image:x:50000:user-defined-in-image\n")},
		{Path: "root/", Mode: 0o700}, {Path: "home/user-defined-in-image/", Mode: 0o755}, {Path: "usr/bin/", Mode: 0o755},
		{Path: "usr/bin/nmeter", Mode: 0o755, Data: []byte(nmeter)},
	}
	for _, applet := range strings.Fields(string(list)) {
		if applet != "busybox" && applet != "sh" {
			files = append(files, lab.File{Path: "bin/" + applet, Link: "busybox"})
		}
	}
	return files, nil
}
