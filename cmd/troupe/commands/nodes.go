//go:build linux && !nonode

package commands

import (
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/supervisor/host"
)

// runChild does not return in a child of the node agent.
func runChild() { host.RunChildIfAsked() }

// commandOf is what a program of this name does. In the place of the kubelet, where kubeadm, unit files and scripts
// look for it, it is troupe node.
func commandOf(program string) *cobra.Command {
	if program != "kubelet" {
		return Root()
	}
	c := newNodeCommand()
	c.Use = program
	c.SilenceErrors, c.SilenceUsage = true, true // execute prints them, once
	return c
}

// nodeCommands are those that run a node, or look at one that runs on this machine.
func nodeCommands() []*cobra.Command {
	return []*cobra.Command{
		newNodeCommand(), newPodsCommand(), newTreeCommand(), newTimelineCommand(), newCrashesCommand(), newWebCommand(),
	}
}

// chaosOnNodes are the commands of troupe chaos that need a node.
func chaosOnNodes(shared *chaosFlags) []*cobra.Command {
	return []*cobra.Command{newChaosLiveCommand(shared)}
}
