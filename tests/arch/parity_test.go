package arch

import (
	"fmt"
	"go/build"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// compared are the folders of Kubernetes that docs/parity compares with this agent.
var compared = []string{
	"cmd/kubelet/app", "pkg/apis/core/v1", "pkg/apis/core/validation", "pkg/credentialprovider", "pkg/kubelet", "pkg/probe",
	"pkg/security", "pkg/securitycontext", "pkg/volume",
}

// parityModule is where the source of Kubernetes is, if it was downloaded. Its version stands in docs/parity/files.md.
func parityModule(t *testing.T, version string) string {
	t.Helper()
	cache := check.Value(exec.Command("go", "env", "GOMODCACHE").Output())(t)
	dir := filepath.Join(strings.TrimSpace(string(cache)), "k8s.io", "kubernetes@"+version)
	_, err := os.Stat(dir)
	hosttest.Need(t, "the source of Kubernetes (go tool task prepare)", err)
	return dir
}

// parityList is docs/parity/files.md: the release, and what it says of each file.
func parityList(t *testing.T) (version string, files map[string]string) {
	t.Helper()
	text := string(check.Value(os.ReadFile(filepath.Join(root, "docs/parity/files.md")))(t))
	version, folder, files := regexp.MustCompile(`v\d+\.\d+\.\d+`).FindString(text), "", map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "## "); is {
			folder = name
		} else if entry, is := strings.CutPrefix(line, "- "); is {
			name, says, _ := strings.Cut(entry, ": ")
			if _, twice := files[folder+"/"+name]; twice {
				t.Errorf("%s/%s is there twice", folder, name)
			}
			files[folder+"/"+name] = says
		}
	}
	return version, files
}

// TestParityFiles holds docs/parity/files.md against the module: every file is there, and what it says exists.
func TestParityFiles(t *testing.T) {
	version, listed := parityList(t)
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		check.Error(t, parityEntry(name, listed[name]))
	}
	module := parityModule(t, version)
	var there []string
	for _, folder := range compared {
		check.Fatal(t, filepath.WalkDir(filepath.Join(module, folder), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() && slices.Contains([]string{"testing", "test", "fake", "fuzzer"}, e.Name()) {
				return orSkip(err)
			}
			if of, err := ofLinux(path, e); err != nil || !of {
				return err
			}
			name, err := filepath.Rel(module, path)
			there = append(there, name)
			return err
		}))
	}
	slices.Sort(there)
	check.Same(t, slices.Sorted(maps.Keys(listed)), there, "files of docs/parity/files.md")
}

func orSkip(err error) error {
	if err == nil {
		err = fs.SkipDir
	}
	return err
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// ofLinux says whether a file is built on Linux, and neither a test nor generated.
func ofLinux(path string, e fs.DirEntry) (bool, error) {
	if e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
		return false, nil
	}
	linux := build.Default
	linux.GOOS, linux.GOARCH, linux.CgoEnabled = "linux", "amd64", true
	of, err := linux.MatchFile(filepath.Dir(path), e.Name())
	if err != nil || !of {
		return false, err
	}
	text, err := os.ReadFile(path)
	return !generated.Match(text), err
}

// parityEntry checks what is said of a file: pages of docs/parity, why it decides nothing, or that nobody has opened it.
func parityEntry(name, says string) error {
	if why, is := strings.CutPrefix(says, "decides nothing: "); is && why != "" || says == "not opened" {
		return nil
	}
	for page := range strings.SplitSeq(says, ", ") {
		if _, err := os.Stat(filepath.Join(root, "docs/parity", page+".md")); err != nil {
			return fmt.Errorf("docs/parity/files.md: %s: %q: %w", name, says, err)
		}
	}
	return nil
}
