//go:build linux && !nonode

package commands

import (
	"fmt"
	"io"
	"strconv"

	"github.com/troupe-dev/troupe/supervisor/version"
)

// kubernetesVersion is the value of --version, as the kubelet has it: empty, true or raw. kubeadm and other tools that
// set up nodes read what it prints.
type kubernetesVersion string

// String implements pflag.Value.
func (v *kubernetesVersion) String() string { return string(*v) }

// Type implements pflag.Value.
func (v *kubernetesVersion) Type() string { return "version" }

// Set implements pflag.Value.
func (v *kubernetesVersion) Set(s string) error {
	if s != "raw" {
		asked, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("%q: must be true, false or raw", s)
		}
		if s = ""; asked {
			s = "true"
		}
	}
	*v = kubernetesVersion(s)
	return nil
}

func (v *kubernetesVersion) print(w io.Writer) error {
	line := "Kubernetes " + version.Kubernetes()
	if *v == "raw" {
		line += " (" + version.Line() + ")"
	}
	_, err := fmt.Fprintln(w, line)
	return err
}
