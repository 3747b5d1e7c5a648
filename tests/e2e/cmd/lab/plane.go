package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

const planeUsage = `A control plane runs. In another shell, tests of a cluster use it:
    cd tests/e2e && go test ./cluster -run 'TestRunPod$' -v
Each run has it as new. To look at what a test does, with the kubectl in .run/bin:
    kubectl --kubeconfig %s get pods -A --watch
Ctrl-C ends it.
`

// plane builds what tests use, and shares a control plane until ctx ends.
func plane(ctx context.Context, repository string) error {
	if err := build(ctx, repository, os.Stderr); err != nil {
		return err
	}
	return lab.SharePlane(ctx, repository, os.Stderr, func(kubeconfig string) { fmt.Printf(planeUsage, kubeconfig) })
}

// build builds what most tests use, so that none of them does. What has not changed costs a look at it.
func build(ctx context.Context, repository string, log io.Writer) error {
	fmt.Fprintln(log, "building the programs that tests use")
	for _, raced := range []bool{false, true} {
		if _, err := lab.BuildTroupe(ctx, repository, raced); err != nil {
			return err
		}
	}
	if _, err := lab.BuildContainerd(ctx, repository, log); err != nil {
		return err
	}
	if _, err := lab.BuildKubernetes(ctx, repository, "kubectl", log); err != nil {
		return err
	}
	if lab.RuncBuild.Missing() == nil {
		if _, err := lab.BuildRunc(ctx, repository, log); err != nil {
			return err
		}
	}
	if _, err := lab.BuildCSIDriver(ctx, repository); err != nil {
		return err
	}
	for _, program := range lab.Programs() {
		if _, err := lab.BuildProgram(ctx, repository, program); err != nil {
			return err
		}
	}
	return nil
}
