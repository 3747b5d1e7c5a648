package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/troupe-dev/troupe/tests/check"
)

// NodeSuite is Kubernetes' own test suite of a node, with the kubelet that it comes with.
type NodeSuite struct {
	// Tests is e2e_node.test, which can also be the control plane of the suite. Ginkgo runs it.
	Tests, Ginkgo string
	// Kubelet is that of the same release.
	Kubelet string
	// Agnhost, Nonewprivs and DevicePlugin are the programs of the suite's images of these names.
	Agnhost, Nonewprivs, DevicePlugin string
	// Source is the directory of the release's source.
	Source string
	// Images are the names of the images that specs ask for, by what the suite calls them, such as BusyBox.
	Images map[string]string
}

const suitePackage = kubernetesModule + "/test/e2e_node"

// FindNodeSuite is the suite of a release whose programs are in a directory, such as that of a Kubernetes release.
func FindNodeSuite(ctx context.Context, repository, release, dir string) (_ NodeSuite, err error) {
	defer check.Return(&err)
	at := func(program string) string { return filepath.Join(dir, program) }
	source := check.Must(suiteSource(ctx, repository, release))
	return NodeSuite{
		Tests: at("e2e_node.test"), Ginkgo: at("ginkgo"), Kubelet: at("kubelet"), Agnhost: at("agnhost"),
		Nonewprivs: at("nonewprivs"), DevicePlugin: at("sample-device-plugin"), Source: source,
		Images: suiteImages(check.Must(os.ReadFile(filepath.Join(source, "test/utils/image/manifest.go")))),
	}, nil
}

// BuildNodeSuite builds the suite of a release, such as 1.37.2, unless it is there. Its module is not one of this
// repository: it is made of Kubernetes' own, so that suite and kubelet are built of the same sources as upstream's.
func BuildNodeSuite(ctx context.Context, repository, release string, log io.Writer) (_ NodeSuite, err error) {
	defer check.Return(&err)
	module := filepath.Join(".run/node-suite", release)
	check.OK(makeSuiteModule(ctx, repository, filepath.Join(repository, module), release))
	// -mod=mod notes the sums of modules that Kubernetes' go.sum has not: those that are published with it.
	args := []string{"-mod=mod", "-ldflags", kubernetesFlags(release)}
	programs := built{
		name: "node-suite-" + release, takes: "ten minutes", module: module, env: withoutC, args: args,
		programs: []string{"agnhost", "ginkgo", "kubelet", "nonewprivs", "sample-device-plugin"},
		packages: []string{
			kubernetesModule + "/test/images/agnhost", "github.com/onsi/ginkgo/v2/ginkgo", kubernetesModule + "/cmd/kubelet",
			kubernetesModule + "/test/images/nonewprivs", kubernetesModule + "/test/images/sample-device-plugin",
		},
	}
	dir := check.Must(programs.dir(ctx, repository, log))
	tests := built{
		name: "e2e-node-" + release, takes: "ten minutes", module: module, env: withoutC, args: args, tests: true,
		programs: []string{"e2e_node.test"}, packages: []string{suitePackage},
	}
	suite := check.Must(FindNodeSuite(ctx, repository, release, dir))
	suite.Tests = filepath.Join(check.Must(tests.dir(ctx, repository, log)), "e2e_node.test")
	return suite, nil
}

// suiteSource is where the source of a release is.
func suiteSource(ctx context.Context, repository, release string) (string, error) {
	return moduleDir(ctx, filepath.Join(repository, e2eDir), kubernetesModule+"@v"+release)
}

var (
	suiteRegistry = regexp.MustCompile(`(\w+): +"([^"]+)",`)
	suiteImage    = regexp.MustCompile(`configs\[(\w+)\] = Config\{list\.(\w+), "([^"]+)", "([^"]+)"\}`)
)

// suiteImages reads the names of images in the source of the suite's list of them.
func suiteImages(source []byte) map[string]string {
	registries, images := map[string]string{}, map[string]string{}
	for _, m := range suiteRegistry.FindAllSubmatch(source, -1) {
		registries[string(m[1])] = string(m[2])
	}
	for _, m := range suiteImage.FindAllSubmatch(source, -1) {
		images[string(m[1])] = fmt.Sprintf("%s/%s:%s", registries[string(m[2])], m[3], m[4])
	}
	return images
}

// makeSuiteModule makes a module in dir whose packages are those of Kubernetes, in the versions of its go.mod. What
// that takes from its own source tree is published in the release's version.
func makeSuiteModule(ctx context.Context, repository, dir, release string) (err error) {
	defer check.Return(&err)
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return nil
	}
	source := check.Must(suiteSource(ctx, repository, release))
	text := check.Must(suiteModule(check.Must(os.ReadFile(filepath.Join(source, "go.mod"))), release))
	check.OK(os.MkdirAll(dir, 0o755))
	check.OK(os.WriteFile(filepath.Join(dir, "go.sum"), check.Must(os.ReadFile(filepath.Join(source, "go.sum"))), 0o644))
	return os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o644)
}

// suiteModule is Kubernetes' go.mod as that of a module that requires Kubernetes.
func suiteModule(kubernetes []byte, release string) (_ []byte, err error) {
	defer check.Return(&err)
	file := check.Must(modfile.Parse("go.mod", kubernetes, nil))
	_, minor, dotted := strings.Cut(release, ".")
	if !dotted {
		return nil, fmt.Errorf("release %q: want one such as 1.37.2", release)
	}
	for _, r := range file.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/") {
			check.OK(file.AddReplace(r.Old.Path, "", r.Old.Path, "v0."+minor))
		}
	}
	check.OK(file.AddModuleStmt("node-suite.invalid"))
	check.OK(file.AddRequire(kubernetesModule, "v"+release))
	file.Cleanup()
	return file.Format()
}
