package strictyaml

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestDecodeNamesEveryMistake(t *testing.T) {
	const good = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"
	cases := map[string]struct {
		doc  string
		want []string // one Mistake.Error() each
	}{
		"good":                    {good + "spec:\n  containers:\n  - {name: c, image: i, resources: {limits: {cpu: 2, memory: 64Mi}}}\n", nil},
		"json":                    {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":null}}`, nil},
		"json, key twice":         {`{"kind":"Pod","metadata":{"name":"a","name":"b"}}`, []string{"metadata.name: given twice: keep one"}},
		"json, control character": {"{\"metadata\":{\"name\":\"a\",\"labels\":{\"a\":\"\x7f\"}}}", nil},
		"unknown field":           {good + "spec:\n  containers:\n  - {name: c, imagee: i}\n", []string{"spec.containers[0].imagee: unknown field: did you mean image?"}},
		"wrong case":              {good + "spec:\n  HostNetwork: true\n", []string{"spec.HostNetwork: unknown field: did you mean hostNetwork?"}},
		"no near field":           {good + "zzzzzzz: 1\n", []string{"zzzzzzz: unknown field"}},
		"duplicate key":           {good + "  name: b\n", []string{"name: given twice, the second time in line 5: keep one"}},
		"string for int":          {good + "spec: {containers: [{name: c, ports: [{containerPort: http}]}]}\n", []string{`spec.containers[0].ports[0].containerPort: "http": must be a whole number, not a string`}},
		"bool for string": {good + "spec: {containers: [{name: c, env: [{name: A, value: yes}]}]}\n",
			[]string{`spec.containers[0].env[0].value: true: must be a string, not a boolean: put it in quotes`}},
		"number label": {good + "  labels: {version: 1.5}\n", []string{`metadata.labels[version]: 1.5: must be a string, not a number: put it in quotes`}},
		"fraction":     {good + "spec: {terminationGracePeriodSeconds: 1.5}\n", []string{"spec.terminationGracePeriodSeconds: 1.5: must be a whole number"}},
		"overflow":     {good + "spec: {priority: 3000000000}\n", []string{"spec.priority: 3000000000: out of range for this field"}},
		"quantity":     {good + "spec: {containers: [{name: c, resources: {limits: {cpu: lots}}}]}\n", []string{`spec.containers[0].resources.limits[cpu]: "lots": must be a quantity, like 100m, 64Mi or 2`}},
		"list for map": {good + "spec: []\n", []string{"spec: []: must be a map, not a list"}},
		"map for list": {good + "spec: {containers: {}}\n", []string{"spec.containers: {}: must be a list, not a map"}},
		"several": {good + "spec: {hostNetwork: 1, nope: 2, containers: 3}\n", []string{
			"spec.containers: 3: must be a list, not a number",
			"spec.hostNetwork: 1: must be true or false, not a number",
			"spec.nope: unknown field"}},
		"two documents":   {good + "---\n" + good, []string{"2 YAML documents found where one is expected: put each into a file of its own"}},
		"markers, one":    {"%YAML 1.1\n---\n# comment\n" + good + "---\n# nothing\n...\n", nil},
		"empty":           {"\n# only a comment\n---\n", []string{"the document is empty"}},
		"scalar":          {"hello", []string{`"hello": must be a map, not a string`}},
		"half written":    {good + "spec:\n  containers: [", []string{"not valid YAML or JSON"}},
		"tab indentation": {"kind: Pod\n\tapiVersion: v1\n", []string{"not valid YAML or JSON"}},
		"binary":          {"\x00\x01\x02", []string{"not valid YAML or JSON"}},
		"byte order mark": {"\xef\xbb\xbf" + good, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var pod v1.Pod
			got := Decode([]byte(c.doc), &pod)
			if len(got) != len(c.want) {
				t.Fatalf("got %d mistakes %v, want %d", len(got), got, len(c.want))
			}
			for i := range got {
				if !strings.Contains(got[i].Error(), c.want[i]) {
					t.Errorf("mistake %d is\n%s\nwant\n%s", i, got[i].Error(), c.want[i])
				}
			}
			if len(got) == 0 && pod.Name != "a" {
				t.Errorf("decoded name %q", pod.Name)
			}
			if len(got) != 0 && pod.Name != "" {
				t.Errorf("pod was touched: %+v", pod)
			}
		})
	}
}

func TestDocumentsAreSplitAtMarkersOnly(t *testing.T) {
	got := Documents([]byte("a: |\n  ---\n  x\n--- {b: 1}\n...\n# c\n---\nd: 1"))
	want := []string{"a: |\n  ---\n  x\n", " {b: 1}\n", "\nd: 1"}
	if len(got) != len(want) {
		t.Fatalf("got %d documents: %q", len(got), got)
	}
	for i := range want {
		if string(got[i]) != want[i] {
			t.Errorf("document %d is %q, want %q", i, got[i], want[i])
		}
	}
}

func TestDeepAliasesAreRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		n := string(rune('a'+i)) + "0"
		p := string(rune('a'+i-1)) + "0"
		b.WriteString(n + ": &" + n + " [" + strings.TrimSuffix(strings.Repeat("*"+p+",", 10), ",") + "]\n")
	}
	var pod v1.Pod
	if got := Decode([]byte(b.String()), &pod); len(got) == 0 {
		t.Fatal("a document that expands to 10^12 values was accepted")
	}
}
