//go:build !linux || nonode

package commands

import "github.com/spf13/cobra"

// A node runs on Linux. Elsewhere there are the simulation and chaos testing on it.

func runChild() {}

func commandOf(string) *cobra.Command { return Root() }

func nodeCommands() []*cobra.Command { return nil }

func chaosOnNodes(*chaosFlags) []*cobra.Command { return nil }
