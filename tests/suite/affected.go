package suite

import (
	"path"
	"slices"
)

// Affected are the packages that have these files, those that import them and so on, by how far they are away. What a
// test imports counts too. The first are the changed ones themselves.
func (s *Source) Affected(files []string) (changed, others []*Package) {
	byDir, users := map[string]*Package{}, map[string][]*Package{}
	for _, p := range s.Packages {
		byDir[p.Name()] = p
		for _, to := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			users[to] = append(users[to], p)
		}
	}
	seen := map[*Package]bool{}
	var further []*Package // besides those that import the changed ones
	for _, file := range files {
		// All depend on these, at least as far as the cache of results is concerned.
		if file == "go.mod" || file == "go.sum" {
			further = s.Packages
		}
		// Files that a test reads are in a folder below.
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			if p := byDir[dir]; p != nil {
				if !seen[p] {
					changed = append(changed, p)
				}
				seen[p] = true
				break
			}
		}
	}
	for next := changed; len(next) > 0; {
		var importers []*Package
		for _, p := range next {
			for _, user := range users[p.ImportPath] {
				if !seen[user] {
					seen[user] = true
					importers = append(importers, user)
				}
			}
		}
		others = append(others, importers...)
		next = importers
	}
	for _, p := range further {
		if !seen[p] {
			others = append(others, p)
		}
	}
	return changed, others
}
