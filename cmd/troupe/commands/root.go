// Package commands is what the program troupe can be told to do. Packaging reads it, too: man pages are made from it.
package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/supervisor/version"
)

// Execute runs what the arguments of the program ask for. It returns the exit code.
func Execute() int {
	// First of all: this process may be a child that does one system call.
	runChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := commandOf(filepath.Base(os.Args[0])).ExecuteContext(ctx)
	code := exitCode(ctx, err)
	var own exitError
	if told := errors.As(err, &own) && own.shown; code != 0 && code != exitInterrupted && !told {
		fmt.Fprintln(os.Stderr, "troupe: "+err.Error())
	}
	return code
}

// The exit codes. A run that a signal ended has one of its own, as of a shell
// (128 and SIGINT): what it was to show is not known.
const (
	exitFailed      = 1
	exitInterrupted = 130
)

// exitError is how a command ends with an exit code of its own.
type exitError struct {
	code  int
	text  string
	shown bool // the command has printed why
}

func (e exitError) Error() string { return e.text }

func exitCode(ctx context.Context, err error) int {
	switch {
	case err == nil, errors.Is(err, context.Canceled) && ctx.Err() != nil, errors.Is(err, syscall.EPIPE):
		return 0
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	}
	var own exitError
	if errors.As(err, &own) {
		return own.code
	}
	return exitFailed
}

// Root is the command troupe with all commands below it.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:           "troupe",
		Short:         "A Kubernetes node agent on the actor model",
		SilenceErrors: true, // execute prints them, once
		SilenceUsage:  true,
		Version:       version.Line(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(nodeCommands()...)
	root.AddCommand(newSimCommand(), newChaosCommand(), newVersionCommand())
	return root
}
