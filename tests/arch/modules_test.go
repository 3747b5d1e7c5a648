package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// Of a line of a go.mod: which version is required of a module, and which is taken instead.
var (
	requirement = regexp.MustCompile(`(?m)^(?:require)?[\t ]+(\S+) (v\S+)(?: // indirect)?$`)
	replacement = regexp.MustCompile(`(?m)^(?:replace)?[\t ]+(\S+) => \S+ (v\S+)$`)
)

// readModule reads the go.mod of a folder of the repository: the version of each module that it requires, for itself or
// for another one, or the version that replaces it.
func readModule(t *testing.T, folder string) map[string]string {
	t.Helper()
	text := check.Value(os.ReadFile(filepath.Join(root, folder, "go.mod")))(t)
	versions := map[string]string{}
	for _, found := range requirement.FindAllSubmatch(text, -1) {
		versions[string(found[1])] = string(found[2])
	}
	for _, found := range replacement.FindAllSubmatch(text, -1) {
		if _, is := versions[string(found[1])]; is {
			versions[string(found[1])] = string(found[2])
		}
	}
	return versions
}

// TestModulesAgree holds the product and its tests on real nodes to the same versions. A package with another version
// below it is compiled once more, up to the whole of client-go and the product itself, and it is not what was tested.
func TestModulesAgree(t *testing.T) {
	product, e2e := readModule(t, "."), readModule(t, "tests/e2e")
	shared := 0
	for path, version := range product {
		other, is := e2e[path]
		if is {
			shared++
		}
		if is && other != version {
			t.Errorf("%s is %s in go.mod and %s in tests/e2e/go.mod: require the higher one in both, then go mod tidy in both",
				path, version, other)
		}
	}
	if shared < 50 {
		t.Errorf("go.mod and tests/e2e/go.mod share %d modules: this test does not read them right", shared)
	}
}

// foreign are modules that only the runner of tasks has wanted: the SDKs of clouds and what fetches files from them.
var foreign = regexp.MustCompile(
	`(?m)^\s*(github\.com/(aws|hashicorp/(aws-|go-getter)|u-root)\S*|cloud\.google\.com/\S+|google\.golang\.org/api)[ /]`)

// TestForeignModules keeps the product's go.mod and go.sum free of them: scanners and embedders read these.
func TestForeignModules(t *testing.T) {
	for _, name := range []string{"go.mod", "go.sum"} {
		text := check.Value(os.ReadFile(filepath.Join(root, name)))(t)
		for _, found := range foreign.FindAllSubmatch(text, -1) {
			t.Errorf("%s has %s: what needs it belongs into a module of its own, such as tests/tools", name, found[1])
		}
	}
}

// TestRunnerModules keeps the runner of tasks small: everybody downloads it before anything else.
func TestRunnerModules(t *testing.T) {
	const most = 20
	if n := len(readModule(t, "tests/tools/task")); n == 0 || n > most {
		t.Errorf("tests/tools/task/go.mod requires %d modules: it may have %d", n, most)
	}
}
