package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/supervisor/node"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of troupe",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), ownVersion())
			return err
		},
	}
}

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
	line := "Kubernetes " + node.KubernetesVersion()
	if *v == "raw" {
		line += " (" + ownVersion() + ")"
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

func ownVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionLine(info)
}

// versionLine is the version, where it was built from, and for what.
func versionLine(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	version := info.Main.Version
	if version == "" || version == "(devel)" {
		version = "devel"
	}
	line := "troupe " + version
	if revision := settings["vcs.revision"]; revision != "" {
		line += " " + revision[:min(12, len(revision))]
		if settings["vcs.modified"] == "true" {
			line += " (modified)"
		}
	}
	return fmt.Sprintf("%s %s %s/%s", line, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
