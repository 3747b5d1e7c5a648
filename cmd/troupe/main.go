// Command troupe is a Kubernetes node agent on the actor model.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/supervisor/host"
)

func main() {
	// First of all: this process may be a child that does one system call.
	host.RunChildIfAsked()
	os.Exit(execute())
}

func execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRootCommand().ExecuteContext(ctx)
	switch {
	case err == nil, errors.Is(err, context.Canceled) && ctx.Err() != nil, errors.Is(err, syscall.EPIPE):
		return 0
	}
	fmt.Fprintln(os.Stderr, "troupe: "+err.Error())
	return 1
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "troupe",
		Short:         "A Kubernetes node agent on the actor model",
		SilenceErrors: true, // execute prints them, once
		SilenceUsage:  true,
	}
	root.AddCommand(newNodeCommand(), newPodsCommand(), newTreeCommand(), newSimCommand(), newVersionCommand())
	return root
}
