package lab

import (
	"context"
	"io"
	"path/filepath"
	"strings"
)

const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
	e2eDir           = "tests/e2e"
)

// BuildEtcd builds etcd into .run/bin/etcd-<version> of the repository, unless it is there, in the
// version of tests/e2e/go.mod, and returns its path. The first time takes half a minute on two
// cores. Log, if not nil, is told when it builds.
func BuildEtcd(ctx context.Context, repository string, log io.Writer) (path string, err error) {
	version, err := version(repository, e2eDir, etcdModule)
	if err != nil {
		return "", err
	}
	dir, err := built{
		name: "etcd-" + version, takes: "half a minute", module: e2eDir, programs: []string{"etcd"}, env: withoutC,
		args: []string{"-ldflags", "-s -w"}, packages: []string{etcdModule},
	}.dir(ctx, repository, log)
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
	version, err := version(repository, e2eDir, kubernetesModule)
	if err != nil {
		return "", err
	}
	dir, err := built{
		name: program + "-" + version, takes: "some minutes", module: e2eDir, programs: []string{program}, env: withoutC,
		args: []string{"-ldflags", kubernetesFlags(version)}, packages: []string{kubernetesModule + "/" + pkg},
	}.dir(ctx, repository, log)
	return filepath.Join(dir, program), err
}

// kubernetesFlags are the linker's. Without a version, a component believes that it comes from the master branch.
func kubernetesFlags(version string) string {
	const at = " -X k8s.io/component-base/version.git"
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	return "-s -w" + at + "Version=v" + version + at + "Major=" + major + at + "Minor=" + minor + at + "TreeState=clean"
}
