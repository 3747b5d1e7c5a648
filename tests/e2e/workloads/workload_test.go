package workloads

import (
	"regexp"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestWorkloads: each can be read, says where it comes from, and breaks a container that it has.
//
//tier:unit
func TestWorkloads(t *testing.T) {
	published := regexp.MustCompile(`^[\w.-]+/[\w.-]+@[\w.]+ `)
	charts, static := check.Value(Charts())(t), check.Value(StaticPods())(t)
	check.AtLeast(t, len(charts), 10, "charts")
	check.AtLeast(t, len(static), 10, "sets of static pods")
	for _, w := range append(charts, static...) {
		t.Run(w.Name, func(t *testing.T) {
			for source := range strings.SplitSeq(w.Source, ";") {
				if !published.MatchString(strings.TrimSpace(source)) {
					t.Errorf("source %q: want repository@commit and a file", source)
				}
			}
			verb, broken, _ := strings.Cut(w.Breaks, " ")
			check.Equal(t, verb == "kills" || verb == "fails", true, "breaks %q", w.Breaks)
			has := false
			for _, u := range check.Value(w.Objects(func(string) string { return "1234" }))(t) {
				images, _, err := Release{Node: "node", Number: 1}.StandIn(u)
				check.Error(t, err)
				for _, image := range images {
					check.Equal(t, strings.Contains(image, ":"), true, "%s has a tag", image)
				}
				has = has || strings.Contains(string(check.Value(u.MarshalJSON())(t)), `/`+broken+`"`)
			}
			check.Equal(t, has, true, "it has a container %s", broken)
		})
	}
}
