package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of troupe",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), versionLine(info))
			return err
		},
	}
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
