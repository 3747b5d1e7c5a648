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
	for _, file := range files {
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
		var further []*Package
		for _, p := range next {
			for _, user := range users[p.ImportPath] {
				if !seen[user] {
					seen[user] = true
					further = append(further, user)
				}
			}
		}
		others = append(others, further...)
		next = further
	}
	return changed, others
}
