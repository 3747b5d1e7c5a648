package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenses writes the licenses of a program and of all that it was built from: they want to go where it goes.
func licenses(ctx context.Context, r release, t target) error {
	c := exec.CommandContext(ctx, "go", "list", "-deps", "-f",
		"{{with .Module}}{{.Path}} {{.Version}}\t{{.Dir}}{{else}}Go\t{{.Root}}{{end}}\t{{.Dir}}", "./cmd/troupe")
	c.Dir, c.Env, c.Stderr = r.root, t.env(), os.Stderr
	listed, err := c.Output()
	if err != nil {
		return fmt.Errorf("list what the program for %s was built from: %w", t, err)
	}
	text, err := licensesOf(string(listed))
	if err != nil {
		return err
	}
	return os.WriteFile(r.licenses(t), []byte(text), 0o644)
}

// licenses is where those of a program are.
func (r release) licenses(t target) string { return r.program(t) + ".licenses" }

// licenseFile is the name of a file that others have to get too.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)([-._].*)?$`)

// licensesOf gives each license once, below the names of what has it. A line of listed is a package: the name of its
// module, the directory of that, and its own. A package has the licenses of all directories between the two.
func licensesOf(listed string) (string, error) {
	users := map[string][]string{}                    // of a text
	seen, has := map[string]bool{}, map[string]bool{} // a directory; a module that has a license
	for line := range strings.Lines(listed) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(parts) != 3 {
			return "", fmt.Errorf("go list printed %q", line)
		}
		name, top := strings.TrimSpace(parts[0]), parts[1]
		has[name] = has[name] || false
		for dir := parts[2]; strings.HasPrefix(dir, top) && !seen[dir]; dir = filepath.Dir(dir) {
			seen[dir] = true
			texts, err := licensesIn(dir)
			if err != nil {
				return "", err
			}
			for file, text := range texts {
				has[name] = true
				users[text] = append(users[text], name+" "+strings.TrimPrefix(file, top+"/"))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if !has[name] {
			return "", fmt.Errorf("%s has no license", name)
		}
	}
	sections := []string{}
	for text, names := range users {
		slices.Sort(names)
		sections = append(sections, strings.Join(names, "\n")+"\n\n"+text+"\n")
	}
	slices.Sort(sections)
	rule := "\n" + strings.Repeat("=", 80) + "\n"
	return "troupe is under the Apache License 2.0. Below are its license and those of all that it was built from:\n" +
		"each text once, after the names of the modules that have it.\n" + rule + strings.Join(sections, rule), nil
}

// licensesIn are the texts of the licenses in a directory, by path.
func licensesIn(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
			continue
		}
		path := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		out[path] = strings.TrimSpace(string(text))
	}
	return out, nil
}
