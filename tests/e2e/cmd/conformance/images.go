package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

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
exec wget -q -T "$time" -O - "$1"
`

const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// pushImages serves the images of the suite by their names, which it returns. Each is Debian's busybox and, where the
// suite runs a program of Kubernetes, that program, built of the release's source.
func pushImages(ctx context.Context, r *lab.Registry, suite lab.NodeSuite, repository string) (_ []string, err error) {
	defer check.Return(&err)
	common := check.Must(base())
	with := func(config v1.Config, files ...lab.File) v1.Image {
		config.Env = []string{path}
		return check.Must(lab.NewPlainImage(config, slices.Concat(common, files)...))
	}
	program := func(name, file string, mode os.FileMode) lab.File {
		return lab.File{Path: name, Mode: mode, Data: check.Must(os.ReadFile(file))}
	}
	agnhost := with(v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}},
		program("agnhost", suite.Agnhost, 0o755), lab.File{Path: "agnhost-2", Link: "agnhost"},
		lab.File{Path: "uploads/", Mode: 0o777}, lab.File{Path: "usr/bin/curl", Mode: 0o755, Data: []byte(curl)})
	busybox := with(v1.Config{Cmd: []string{"sh"}})
	const pages = "usr/share/nginx/html"
	nginx := with(v1.Config{Entrypoint: []string{"httpd", "-f", "-p", "80", "-h", "/" + pages}},
		lab.File{Path: pages + "/index.html", Mode: 0o644, Data: []byte("nginx\n")})
	pause := check.Must(lab.ProgramImage(ctx, repository, "pause"))
	all := map[string]v1.Image{
		"Agnhost": agnhost, "AgnhostPrev": agnhost, "BusyBox": busybox, "IpcUtils": busybox, "Kitten": busybox,
		"Nginx": nginx, "NginxNew": nginx, "Pause": pause,
		"NonRoot":            with(v1.Config{Cmd: []string{"sh"}, User: "1234"}),
		"Nonewprivs":         with(v1.Config{Cmd: []string{"nnp"}}, program("usr/local/bin/nnp", suite.Nonewprivs, 0o6755)),
		"SampleDevicePlugin": with(v1.Config{Entrypoint: []string{"/plugin"}}, program("plugin", suite.DevicePlugin, 0o755)),
	}
	names := []string{lab.PauseImage}
	check.OK(r.Push(ctx, lab.PauseImage, pause))
	for of, image := range all {
		if name := suite.Images[of]; name != "" { // else this release has none
			check.OK(r.Push(ctx, name, image))
			names = append(names, name)
		}
	}
	return names, nil
}

// base is busybox with all that it can be called as, and the users that the suite expects.
func base() (files []lab.File, err error) {
	defer check.Return(&err)
	busybox := check.Must(lab.LookPath("busybox"))
	list := check.Must(exec.Command(busybox, "--list").Output())
	files = []lab.File{
		{Path: "bin/busybox", Mode: 0o755, Data: check.Must(os.ReadFile(busybox))},
		{Path: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/bin/sh\n" +
			"user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n")},
		{Path: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nuser-defined-in-image:x:1000:\n" +
			"group-defined-in-image:x:50000:user-defined-in-image\n")},
		{Path: "root/", Mode: 0o700}, {Path: "home/user-defined-in-image/", Mode: 0o755}, {Path: "usr/bin/", Mode: 0o755},
	}
	for _, applet := range strings.Fields(string(list)) {
		if applet != "busybox" {
			files = append(files, lab.File{Path: "bin/" + applet, Link: "busybox"})
		}
	}
	return files, nil
}
