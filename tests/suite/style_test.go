package suite

import (
	"strings"
	"testing"
)

func TestMisstyled(t *testing.T) {
	const good = "package p\n\nimport (\n\t\"os\"\n\n\t\"a.b/c\"\n\n\t\"" + Module + "/cri\"\n)\n"
	long := "// " + strings.Repeat("ä", 118) + "\n"
	for _, row := range []struct{ name, file, text, want string }{
		{"good", "cri/a.go", good, ""},
		{"wide", "cri/a.go", good + "\n" + long, "cri/a.go:11: 121 columns"},
		{"wide test", "cri/a_test.go", good + "\n" + long, ""},
		{"format", "cri/a.go", good + "\nvar  x int\n", "gofmt"},
		{"sections", "cri/a.go", strings.Replace(good, "\n\n\t\"a", "\n\t\"a", 1), "sorted"},
		{"order", "cri/a.go", strings.Replace(good, "os", "z.z/y", 1), "sorted"},
		{"ours", "cri/a.go", strings.NewReplacer("os", Module+"/b", "a.b/c", "os").Replace(good), "sorted"},
	} {
		got := strings.Join(misstyled(row.file, []byte(row.text)), "\n")
		if (row.want == "") != (got == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
