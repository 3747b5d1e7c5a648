package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/troupe-dev/troupe/tests/check"
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
func build(ctx context.Context, repository string, log io.Writer) (err error) {
	defer check.Return(&err)
	fmt.Fprintln(log, "building the programs that tests use")
	for _, raced := range []bool{false, true} {
		check.Must(lab.BuildTroupe(ctx, repository, raced))
	}
	check.Must(lab.BuildContainerd(ctx, repository, log))
	check.Must(lab.BuildKubernetes(ctx, repository, "kubectl", log))
	if lab.RuncBuild.Missing() == nil {
		check.Must(lab.BuildRunc(ctx, repository, log))
	}
	check.Must(lab.BuildCSIDriver(ctx, repository))
	for _, program := range lab.Programs() {
		check.Must(lab.BuildProgram(ctx, repository, program))
	}
	return nil
}
