package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// packages are Debian's packages by what of theirs is needed.
var packages = []struct {
	name string
	of   lab.Requirement
}{
	{"containerd", lab.OldContainerd},
	{"runc", lab.Runc},
	{"containernetworking-plugins", lab.CNIPlugins},
	{"iptables", lab.Iptables},
	{"iproute2", lab.Iproute},
}

// install installs what is missing and says so. It asks nothing.
func install(ctx context.Context, release lab.Release) error {
	var missing []string
	for _, p := range packages {
		if p.name == "containerd" && release != lab.Containerd1 {
			continue // built from its Go module
		}
		if p.of.Missing() != nil {
			missing = append(missing, p.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	fmt.Println("Installing from Debian:", strings.Join(missing, " "))
	for _, args := range [][]string{
		{"update", "-qq"},
		append([]string{"install", "-qq", "-y", "--no-install-recommends"}, missing...),
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s\ninstall these yourself and try again: %s",
				args[0], err, out, strings.Join(missing, " "))
		}
	}
	return nil
}
