package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/tests/check"
)

var update = flag.Bool("update", false, "write docs/settings.md")

// TestEachFieldIsASetting: what is not among the settings has no default, no flag and no effect, and no page has it.
func TestEachFieldIsASetting(t *testing.T) {
	listed := func(path string) bool {
		return slices.ContainsFunc(settings, func(s setting) bool { return s.path == path })
	}
	var want func(above string, in reflect.Type)
	want = func(above string, in reflect.Type) {
		for _, f := range reflect.VisibleFields(in) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			path, kind := above+name, f.Type
			if name == "" || listed(path) {
				continue
			}
			if kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			if kind.Kind() != reflect.Struct {
				t.Errorf("%s is not among the settings", path)
				continue
			}
			want(path+".", kind)
		}
	}
	want("", reflect.TypeFor[kubelet.KubeletConfiguration]())
}

// TestPage: docs/settings.md is made of the settings and the flags.
func TestPage(t *testing.T) {
	const file = "../../docs/settings.md"
	want := settingsPage(t)
	if *update {
		check.Fatal(t, os.WriteFile(file, []byte(want), 0o644))
	}
	check.Equal(t, string(check.Value(os.ReadFile(file))(t)), want, "%s (-update writes it)", file)
}

func settingsPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Settings

What troupe node can be given, made of the tables in supervisor/config. [operating.md](operating.md) says more on some.

## Fields of KubeletConfiguration

A field without a default is empty, 0 or false. A value that is against "must be" ends the start; with "else the default"
it is a warning. Some fields have further rules that depend on others: an error says which. With "none", a setting
that is not the default is named at the start.

| field | flags | default | must be | effect |
|---|---|---|---|---|
`)
	usual := Default().kubelet
	for _, s := range settings {
		if s.path == "kind" || s.path == "apiVersion" {
			continue
		}
		var flags []string
		for name := range strings.FieldsSeq(s.flags) {
			flags = append(flags, "`--"+name+"`")
		}
		effect := "yes"
		if s.is&idle != 0 {
			effect = "none"
		} else if gate := actsWithGate[s.path]; gate != "" {
			effect = "needs feature gate " + gate
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.path, strings.Join(flags, ", "), shownDefault(t, &s, &usual),
			shownRule(&s, &usual), effect)
	}
	b.WriteString("\n## Feature gates\n\nThese have an effect, some by the fields that are refused without them: `" +
		strings.Join(slices.Sorted(maps.Keys(actsOnGate)), "`,\n`") + "`.\n")
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags := NewFlags()
	flags.AddTo(all)
	b.WriteString("\n## Flags without a field\n\n| flag | default | what it is |\n|---|---|---|\n")
	all.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(flags.ignored, f.Name) && !strings.HasPrefix(f.Usage, "overrides ") {
			fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", f.Name, strings.Trim(f.DefValue, "[]"),
				strings.ReplaceAll(f.Usage, "*", `\*`))
		}
	})
	b.WriteString("\n## Flags without effect\n\nThese are accepted, so that a unit file of a kubelet needs no change: `--" +
		strings.Join(flags.ignored, "`,\n`--") + "`.\n")
	return b.String()
}

// shownDefault is the default of a setting as a file has it.
func shownDefault(t *testing.T, s *setting, usual kc) string {
	t.Helper()
	v := s.value(usual)
	if !v.IsValid() || v.IsZero() && s.in(usual).Kind() != reflect.Pointer {
		return ""
	}
	text := string(check.Value(json.Marshal(v.Interface()))(t))
	if text == `"0s"` || text == `"0"` {
		return ""
	}
	return strings.NewReplacer("{", "", "}", "", `"`, "", ",", ", ").Replace(text)
}

func shownRule(s *setting, usual kc) string {
	switch r := s.rule; {
	case r == nil:
		return ""
	case r == aboveZero:
		return "above 0, else the default"
	case r == notNegative:
		return "at least 0, else the default"
	case r.values != nil:
		return strings.TrimPrefix(strings.Join(r.values, ", "), ", ")
	}
	kind := reflect.TypeFor[int32]()
	if v := s.value(usual); v.IsValid() {
		kind = v.Type()
	}
	return s.rule.text(kind)
}
