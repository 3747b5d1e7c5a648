package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/tests/check"
)

// patch is a mutant that was made by hand.
type patch struct {
	name string
	// title says what it breaks.
	title string
	files []patchedFile
}

type patchedFile struct {
	path  string
	hunks []hunk
}

// hunk replaces lines of a file.
type hunk struct{ before, after []string }

// readPatches reads all patches of a folder, in order of their names.
func readPatches(dir string) (_ []*patch, err error) {
	defer check.Return(&err)
	names := check.Must(filepath.Glob(filepath.Join(dir, "*.patch")))
	slices.Sort(names)
	var all []*patch
	for _, name := range names {
		data := check.Must(os.ReadFile(name))
		p, err := parsePatch(strings.TrimSuffix(filepath.Base(name), ".patch"), string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// parsePatch reads a unified diff. Its first line is the title.
func parsePatch(name, text string) (*patch, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	p := &patch{name: name, title: lines[0]}
	var in *hunk
	for _, line := range lines[1:] {
		path, isFile := strings.CutPrefix(line, "+++ b/")
		switch {
		case isFile:
			p.files, in = append(p.files, patchedFile{path: path}), nil
		case strings.HasPrefix(line, "@@") && len(p.files) > 0:
			f := &p.files[len(p.files)-1]
			f.hunks = append(f.hunks, hunk{})
			in = &f.hunks[len(f.hunks)-1]
		case strings.HasPrefix(line, "diff "):
			in = nil
		case in == nil:
		case line == "" || line[0] == ' ':
			in.before, in.after = append(in.before, strings.TrimPrefix(line, " ")), append(in.after, strings.TrimPrefix(line, " "))
		case line[0] == '-':
			in.before = append(in.before, line[1:])
		case line[0] == '+':
			in.after = append(in.after, line[1:])
		}
	}
	if len(p.files) == 0 {
		return nil, fmt.Errorf("it changes no file")
	}
	return p, nil
}

// patched gives a file as the patch has it. The lines of each hunk must be there once.
func (f *patchedFile) patched(text []byte) ([]byte, error) {
	for _, h := range f.hunks {
		before, after := strings.Join(h.before, "\n")+"\n", strings.Join(h.after, "\n")+"\n"
		if n := bytes.Count(text, []byte(before)); n != 1 {
			return nil, fmt.Errorf("%s has these lines %d times:\n%s", f.path, n, before)
		}
		text = bytes.Replace(text, []byte(before), []byte(after), 1)
	}
	return text, nil
}

// variants are the functions that the patch changes. It may change nothing else.
func (p *patch) variants(o *overlay, mutant int) (all []*variant, err error) {
	for i := range p.files {
		f := &p.files[i]
		s, err := o.source(f.path)
		if err != nil {
			return nil, err
		}
		text, err := f.patched(s.text)
		if err != nil {
			return nil, fmt.Errorf("%s no longer applies: %w", p.name, err)
		}
		changed, err := parseSource(f.path, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		var back []edit // of the changed functions
		for key, fn := range changed.funcs {
			old := s.funcs[key]
			if old == nil {
				return nil, fmt.Errorf("%s adds the function %s; a patch may only change functions", p.name, key)
			}
			if s.of(old) != changed.of(fn) {
				all = append(all, &variant{mutant: mutant, path: f.path, key: key, text: changed.of(fn)})
				back = append(back, edit{changed.offset(fn.Pos()), changed.offset(fn.End()), s.of(old)})
			}
		}
		if !bytes.Equal(apply(text, back), s.text) {
			return nil, fmt.Errorf("%s changes more of %s than functions", p.name, f.path)
		}
	}
	return all, nil
}
