package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/manifest/strictyaml"
)

const (
	configKind    = "KubeletConfiguration"
	configVersion = "kubelet.config.k8s.io/v1beta1"

	// maxFile is the largest configuration file that is read, in bytes.
	maxFile = 1 << 20
	// dropinSuffix ends the names of the files of --config-dir that count.
	dropinSuffix = ".conf"
)

// readFile reads one file. name is an absolute path.
func readFile(root fs.FS, name string) ([]byte, []Problem) {
	failed := func(message string) []Problem { return []Problem{{Origin: name, Message: message}} }
	inRoot := strings.TrimPrefix(name, "/")
	// A look before reading: a FIFO would keep the reader forever.
	info, err := fs.Stat(root, inRoot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failed("no such file: give the path of one, or leave the flag out")
	case err != nil:
		return nil, failed(plain(err).Error())
	case !info.Mode().IsRegular():
		return nil, failed("is not a regular file")
	case info.Size() > maxFile:
		return nil, failed(fmt.Sprintf("%d bytes long: at most %d", info.Size(), maxFile))
	}
	data, err := fs.ReadFile(root, inRoot)
	if err != nil {
		return nil, failed(plain(err).Error())
	}
	return data, nil
}

// filesOf are a file, or the files of a directory with one of these endings, in the order of their names.
func (l *loader) filesOf(name string, endings ...string) ([]string, error) {
	info, err := fs.Stat(l.root, strings.TrimPrefix(name, "/"))
	if err != nil {
		return nil, plain(err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := fs.ReadDir(l.root, strings.TrimPrefix(name, "/"))
	if err != nil {
		return nil, plain(err)
	}
	var files []string
	for _, e := range entries { // sorted by name
		if !e.IsDir() && slices.Contains(endings, path.Ext(e.Name())) {
			files = append(files, path.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		last := len(endings) - 1
		text := strings.Join(endings[:last], ", ")
		if last > 0 {
			text += " or "
		}
		return nil, errors.New("the directory has no file that ends with " + text + endings[last])
	}
	return files, nil
}

// readTree reads one file as a tree and checks it against the type. name is
// an absolute path. ignored is what the agent goes on without, as a kubelet
// does (docs/decisions/0068).
func readTree(root fs.FS, name string) (tree map[string]any, ignored, problems []Problem) {
	failed := func(message string) []Problem { return []Problem{{Origin: name, Message: message}} }
	data, problems := readFile(root, name)
	if problems != nil {
		return nil, nil, problems
	}
	parsed, twice, mistakes := strictyaml.ParseForgiving(data)
	if mistakes != nil {
		return nil, nil, fromMistakes(name, mistakes)
	}
	tree, ok := parsed.(map[string]any)
	if !ok {
		return nil, nil, failed("must be a " + configKind)
	}
	if problems := checkKind(name, tree); problems != nil {
		return nil, nil, problems
	}
	var typed kubelet.KubeletConfiguration
	unknown, mistakes := strictyaml.DecodeForgiving(tree, "", &typed)
	if mistakes != nil {
		return nil, nil, fromMistakes(name, mistakes)
	}
	resolvePaths(tree, path.Dir(name))
	return tree, fromMistakes(name, slices.Concat(twice, unknown)), nil
}

func checkKind(name string, m map[string]any) []Problem {
	var problems []Problem
	for _, want := range []struct{ field, value string }{{"kind", configKind}, {"apiVersion", configVersion}} {
		switch got := m[want.field]; {
		case got == nil:
			problems = append(problems, Problem{Origin: name, Field: want.field, Message: "must be given: " + want.value})
		case got != want.value:
			problems = append(problems,
				Problem{Origin: name, Field: want.field, Value: strictyaml.Show(got), Message: "must be " + want.value})
		}
	}
	return problems
}

// resolvePaths makes paths absolute: one that is relative is relative to the file that it is in.
func resolvePaths(tree map[string]any, dir string) {
	for _, s := range settings {
		if s.is&filePath == 0 {
			continue
		}
		at, names := tree, strings.Split(s.path, ".")
		for _, name := range names[:len(names)-1] {
			at, _ = at[name].(map[string]any)
		}
		last := names[len(names)-1]
		if value, ok := at[last].(string); ok && value != "" && !path.IsAbs(value) {
			at[last] = path.Join(dir, value)
		}
	}
}

// dropins lists the files of --config-dir that count, in the order in which
// they apply: that of a walk through it and its subdirectories by name.
func dropins(root fs.FS, dir string) ([]string, []Problem) {
	var names []string
	err := fs.WalkDir(root, strings.TrimPrefix(dir, "/"), func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() && path.Ext(name) == dropinSuffix {
			names = append(names, "/"+name)
		}
		return nil
	})
	if err != nil {
		return nil, []Problem{{Origin: dir, Message: "cannot be read as --config-dir: " + plain(err).Error()}}
	}
	return names, nil
}

// merge puts a patch over a tree by RFC 7396 (JSON Merge Patch): maps merge,
// everything else replaces, null removes.
func merge(tree, patch map[string]any) {
	for name, value := range patch {
		if value == nil {
			delete(tree, name)
			continue
		}
		from, ok := value.(map[string]any)
		if !ok {
			tree[name] = value
			continue
		}
		into, ok := tree[name].(map[string]any)
		if !ok {
			into = map[string]any{}
			tree[name] = into
		}
		merge(into, from)
	}
}

// plain takes operation and path off an error: the message has the path.
func plain(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
