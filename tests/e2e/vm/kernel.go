package vm

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// kernel is a kernel to boot.
type kernel struct {
	image   string // file
	release string
	modules string // directory
}

// findKernel takes the newest kernel that `go tool task kernel` has unpacked, or else one that is
// installed, whose modules must not be compressed.
func findKernel(repository string) (kernel, error) {
	for _, root := range []string{filepath.Join(repository, ".run/kernel"), "/"} {
		images, err := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
		if err != nil {
			return kernel{}, err
		}
		slices.Sort(images)
		slices.Reverse(images)
		for _, image := range images {
			release := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
			k := kernel{image, release, filepath.Join(root, "lib/modules", release)}
			if _, err := k.load("overlay"); err == nil {
				return k, nil
			}
		}
	}
	return kernel{}, errors.New("no kernel in .run/kernel or /boot (run: go tool task kernel)")
}

// load is the files of a module and of those that it depends on, in the order of loading: none if
// all is built in.
func (k kernel) load(names ...string) (_ []string, err error) {
	defer check.Return(&err)
	builtin := check.Must(os.ReadFile(filepath.Join(k.modules, "modules.builtin")))
	files := map[string]string{}
	check.OK(filepath.WalkDir(filepath.Join(k.modules, "kernel"), func(path string, d fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok && err == nil {
			files[moduleName(name)] = path
		}
		return err
	}))
	var order []string
	var visit func(name string) error
	visit = func(name string) error {
		file, ok := files[moduleName(name)]
		if !ok {
			if isBuiltin(string(builtin), name) {
				return nil
			}
			return fmt.Errorf("kernel %s has no module %s", k.release, name)
		}
		if slices.Contains(order, file) {
			return nil
		}
		needs, err := moduleNeeds(file)
		if err != nil {
			return err
		}
		for _, n := range needs {
			if err := visit(n); err != nil {
				return err
			}
		}
		order = append(order, file)
		return nil
	}
	for _, name := range names {
		check.OK(visit(name))
	}
	return order, nil
}

// moduleName is a name as the kernel writes it: files have either of the two signs.
func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

func isBuiltin(list, name string) bool {
	for line := range strings.Lines(list) {
		if moduleName(strings.TrimSuffix(filepath.Base(strings.TrimSpace(line)), ".ko")) == moduleName(name) {
			return true
		}
	}
	return false
}

// moduleNeeds are the modules that one names in its "depends".
func moduleNeeds(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("read module %s: it has no .modinfo", file)
	}
	data, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	for _, field := range strings.Split(string(data), "\x00") {
		if names, ok := strings.CutPrefix(field, "depends="); ok && names != "" {
			return strings.Split(names, ","), nil
		}
	}
	return nil, nil
}

// libraryDirs are where the dynamic linker looks.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// addProgram adds a program of the host as name, with its interpreter and libraries if it is
// linked dynamically.
func (a *archive) addProgram(name, file string) error {
	a.file(name, file, 0o755)
	return a.addLibraries(file)
}

func (a *archive) addLibraries(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("read program %s: %w", file, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		name := make([]byte, p.Filesz)
		if _, err := p.ReadAt(name, 0); err != nil {
			return fmt.Errorf("read program %s: %w", file, err)
		}
		interpreter := strings.TrimRight(string(name), "\x00")
		a.file(interpreter, interpreter, 0o755)
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read program %s: %w", file, err)
	}
	dirs := slices.Concat(a.libraries, libraryDirs)
	for _, library := range libraries {
		at := slices.IndexFunc(dirs, func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, library))
			return err == nil
		})
		if at < 0 {
			return fmt.Errorf("find library %s of %s: not in %v", library, file, dirs)
		}
		// All in the first directory: the kernel's archive has no symbolic links to follow.
		name := filepath.Join(libraryDirs[0], library)
		if _, there := a.entries[name]; there {
			continue
		}
		from := filepath.Join(dirs[at], library)
		a.file(name, from, 0o755)
		if err := a.addLibraries(from); err != nil {
			return err
		}
	}
	return nil
}

// hasKernel is what a test here needs besides the laboratory's.
func hasKernel(repository string) lab.Requirement {
	return lab.NewRequirement("a Linux kernel", func() error { _, err := findKernel(repository); return err })
}
