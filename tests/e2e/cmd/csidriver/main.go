// Command csidriver runs the CSI driver of package csidriver, which tests use, with the configuration in a file:
//
//	csidriver FILE
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: csidriver FILE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	config, err := csidriver.ReadConfig(os.Args[1])
	if err == nil {
		var d *csidriver.Driver
		if d, err = csidriver.New(config); err == nil {
			err = d.Serve(ctx)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the context's signals end with the process
	}
}
