package arch

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/tests/check"
)

const (
	pagesIndex     = "README.md"           // has a row for each file below docs,
	decisionsIndex = "decisions/README.md" // but for decisions, whose rows are here
)

var (
	indexRow = regexp.MustCompile(`(?m)^\| \[([^\]]+)\]\(([^)]+)\) \| *[^| ]`) // the groups are a text and a file
	pageLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
	quoted   = regexp.MustCompile("`[^`\n]*`")
	heading  = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	decision = regexp.MustCompile(`^(\d{4})-.+\.md$`)
	title    = regexp.MustCompile(`^# (\d{4}): \S`)
)

// TestEachPageIsInItsIndex: a page that no index names is not found.
func TestEachPageIsInItsIndex(t *testing.T) {
	rows := map[string]map[string]int{}
	for _, index := range []string{pagesIndex, decisionsIndex} {
		rows[index] = map[string]int{}
		for _, row := range indexRow.FindAllStringSubmatch(page(t, filepath.Join(root, "docs", index)), -1) {
			rows[index][path.Join(path.Dir(index), row[2])]++
		}
	}
	for _, file := range docs(t) {
		index := pagesIndex
		switch {
		case file == pagesIndex:
			continue
		case path.Dir(file) == path.Dir(decisionsIndex) && file != decisionsIndex:
			index = decisionsIndex
		}
		check.Equal(t, rows[index][file], 1, "rows of docs/%s for docs/%s", index, file)
		delete(rows[index], file)
	}
	for index, left := range rows {
		for _, file := range slices.Sorted(maps.Keys(left)) {
			t.Errorf("docs/%s has a row for docs/%s, which is not there or belongs in the other index", index, file)
		}
	}
}

// TestTitlesOfDecisions: a decision has a number of its own, which its name, its title and its row say, and a title.
func TestTitlesOfDecisions(t *testing.T) {
	row, last := map[string]string{}, map[string]string{}
	for _, found := range indexRow.FindAllStringSubmatch(page(t, filepath.Join(root, "docs", decisionsIndex)), -1) {
		row[found[2]] = found[1]
	}
	for _, file := range docs(t) {
		name, is := strings.CutPrefix(file, "decisions/")
		if !is || file == decisionsIndex {
			continue
		}
		number := decision.FindStringSubmatch(name)
		if number == nil {
			t.Errorf("docs/%s is not named as a decision: 0123-what-it-is-about.md", file)
			continue
		}
		if other := last[number[1]]; other != "" {
			t.Errorf("docs/%s has the number of %s", file, other)
		}
		last[number[1]] = name
		check.Equal(t, row[name], number[1], "the number in the row of docs/%s", file)
		said := title.FindStringSubmatch(page(t, filepath.Join(root, "docs", file)))
		if said == nil || said[1] != number[1] {
			t.Errorf("docs/%s does not begin with a title such as %q", file, "# "+number[1]+": What was decided")
		}
	}
}

// TestChangelogNamesTheFormat: docs/releases.md sends people to CHANGELOG.md who want to know whether they can go back.
func TestChangelogNamesTheFormat(t *testing.T) {
	newest := strings.Split(page(t, filepath.Join(root, "CHANGELOG.md")), "\n## ")[1]
	check.Has(t, newest, fmt.Sprintf("\nFormat of state: %d.", checkpoint.Format), "the newest release")
}

// TestLinksOfPages: each link leads to a file, and to a heading that is there.
func TestLinksOfPages(t *testing.T) {
	pages := check.Value(filepath.Glob(filepath.Join(root, "*.md")))(t)
	for _, file := range docs(t) {
		if path.Ext(file) == ".md" {
			pages = append(pages, filepath.Join(root, "docs", file))
		}
	}
	for _, file := range pages {
		for _, wrong := range deadLinks(t, file) {
			t.Errorf("%s: %s", file, wrong)
		}
	}
}

// TestDeadLinks: what is wrong with a link is found.
func TestDeadLinks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.md": "# A page\n\n[b](b.md), [itself](#a-page), [web](https://example.org/x#y), `[code](none.md)`\n\n" +
			"```\n[more](none.md)\n# Code\n```\n\n[gone](c.md) and [no\nheading](b.md#second), [twice](b.md#one-thing-1)," +
			" [nor here](#code), [thrice](b.md#one-thing-2)\n",
		"b.md": "# b\n\n## One *thing*\n\n## One thing?\n",
	} {
		check.Fatal(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	check.Same(t, deadLinks(t, filepath.Join(dir, "a.md")), []string{
		"c.md is not there", "b.md#second: there is no such heading", "#code: there is no such heading",
		"b.md#one-thing-2: there is no such heading",
	}, "links that lead nowhere")
	check.Same(t, deadLinks(t, filepath.Join(dir, "b.md")), nil, "links that lead nowhere")
}

// docs are the files below docs.
func docs(t *testing.T) (files []string) {
	t.Helper()
	check.Fatal(t, fs.WalkDir(os.DirFS(filepath.Join(root, "docs")), ".", func(file string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, file)
		}
		return err
	}))
	return files
}

func page(t *testing.T, file string) string {
	t.Helper()
	return string(check.Value(os.ReadFile(file))(t))
}

// deadLinks are the links of a page that lead nowhere. Links to other sites are not looked at.
func deadLinks(t *testing.T, file string) (wrong []string) {
	t.Helper()
	text := quoted.ReplaceAllString(fenced.ReplaceAllString(page(t, file), ""), "")
	for _, link := range pageLink.FindAllStringSubmatch(text, -1) {
		if strings.Contains(link[1], "://") {
			continue
		}
		target, anchor, anchored := strings.Cut(link[1], "#")
		to := file
		if target != "" {
			to = filepath.Join(filepath.Dir(file), target)
		}
		if _, err := os.Stat(to); err != nil {
			wrong = append(wrong, link[1]+" is not there")
		} else if anchored && !anchors(page(t, to))[anchor] {
			wrong = append(wrong, link[1]+": there is no such heading")
		}
	}
	return wrong
}

// anchors are those of the headings of a page, as GitHub makes them.
func anchors(text string) map[string]bool {
	all, times := map[string]bool{}, map[string]int{}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, h[1])
		if n := times[anchor]; n > 0 {
			all[fmt.Sprintf("%s-%d", anchor, n)] = true
		} else {
			all[anchor] = true
		}
		times[anchor]++
	}
	return all
}
