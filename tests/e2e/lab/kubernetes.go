package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
)

// BuildEtcd builds etcd into .run/bin/etcd-<version> of the repository, unless it is there, in the
// version of tests/e2e/go.mod, and returns its path. The first time takes half a minute on two
// cores. Log, if not nil, is told when it builds.
func BuildEtcd(ctx context.Context, repository string, log io.Writer) (path string, err error) {
	version, err := moduleVersion(ctx, repository, etcdModule)
	if err != nil {
		return "", err
	}
	dir, err := built{
		name: "etcd-" + strings.TrimPrefix(version, "v"), takes: "half a minute", usable: holds("etcd"),
		build: func(dir string) error {
			return goBuild(ctx, repository, filepath.Join(dir, "etcd"), "-s -w", etcdModule)
		},
	}.once(ctx, repository, log)
	return filepath.Join(dir, "etcd"), err
}

// BuildKubernetes builds a program of Kubernetes, such as kube-apiserver, into
// .run/bin/<program>-<version> of the repository, unless it is there, in the version of
// tests/e2e/go.mod, and returns its path. The first one takes some minutes on two cores, the others
// less, because they share most packages. Log, if not nil, is told when it builds.
func BuildKubernetes(ctx context.Context, repository, program string, log io.Writer) (path string, err error) {
	return buildKubernetes(ctx, repository, program, "cmd/"+program, log)
}

// BuildSampleDevicePlugin is BuildKubernetes for the device plugin that the tests of the kubelet use: two
// devices of example.com/resource.
func BuildSampleDevicePlugin(ctx context.Context, repository string, log io.Writer) (path string, err error) {
	return buildKubernetes(ctx, repository, "sample-device-plugin", "test/images/sample-device-plugin", log)
}

// BuildDRATestDriver is BuildKubernetes for the DRA driver of the tests of Kubernetes.
func BuildDRATestDriver(ctx context.Context, repository string, log io.Writer) (path string, err error) {
	return buildKubernetes(ctx, repository, "dra-test-driver", "test/e2e/dra/test-driver", log)
}

func buildKubernetes(ctx context.Context, repository, program, pkg string, log io.Writer) (path string, err error) {
	version, err := moduleVersion(ctx, repository, kubernetesModule)
	if err != nil {
		return "", err
	}
	// Without a version, a component believes that it comes from the master branch.
	const at = "k8s.io/component-base/version."
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	flags := fmt.Sprintf("-s -w -X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s -X %[1]sgitTreeState=clean", at, version, major, minor)
	dir, err := built{
		name: program + "-" + strings.TrimPrefix(version, "v"), takes: "some minutes", usable: holds(program),
		build: func(dir string) error {
			return goBuild(ctx, repository, filepath.Join(dir, program), flags, kubernetesModule+"/"+pkg)
		},
	}.once(ctx, repository, log)
	return filepath.Join(dir, program), err
}

func moduleVersion(ctx context.Context, repository, module string) (string, error) {
	version, err := output(ctx, filepath.Join(repository, "tests/e2e"), nil, "go", "list", "-m", "-f", "{{.Version}}", module)
	if err != nil {
		return "", fmt.Errorf("find the version of %s: %w", module, err)
	}
	return version, nil
}

// goBuild builds without -trimpath, as the tests are built: so they share the packages that both have, such as client-go.
func goBuild(ctx context.Context, repository, to, ldflags, pkg string) error {
	_, err := output(ctx, filepath.Join(repository, "tests/e2e"), nil,
		"go", "build", "-buildvcs=false", "-ldflags", ldflags, "-o", to, pkg)
	return err
}

// holds says whether a directory has the program: it is renamed into place when it is complete.
func holds(program string) func(dir string) bool {
	return func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, program))
		return err == nil
	}
}
