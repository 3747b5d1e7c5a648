package cpus

import (
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/tests/check"
)

// Written by the kubelet's own code (v1.36.3).
const (
	kubeletEmpty = `{"policyName":"static","defaultCpuSet":"0,5-7","checksum":3220335701}`
	kubeletTwo   = `{"policyName":"static","defaultCpuSet":"0,5-7","entries":{"a":{"x":"4"},"b":{"c1":"1-2","c2":"3"}},"checksum":58222132}`
)

func TestKubeletsFiles(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       State
	}{
		{"empty", kubeletEmpty, State{}},
		{"two pods", kubeletTwo, State{
			"a": {"x": cpuset.New(4)}, "b": {"c1": cpuset.New(1, 2), "c2": cpuset.New(3)},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &File{Policy: "static", Shared: cpuset.New(0, 5, 6, 7), Own: c.want}
			check.Equal(t, string(s.Format()), c.file, "Format")
			got := check.Value(Parse([]byte(c.file)))(t)
			check.Equal(t, string(got.Format()), c.file, "parsed and formatted")
		})
	}
}

func TestPodWithoutOwnIsLeftOut(t *testing.T) {
	s := &File{Policy: "static", Shared: cpuset.New(0, 5, 6, 7), Own: State{"a": {}}}
	check.Equal(t, string(s.Format()), kubeletEmpty, "it")
}

func TestBadFiles(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{``, "unexpected end"},
		{`[]`, "cannot unmarshal"},
		{`{}`, "does not name a policy"},
		{strings.Replace(kubeletTwo, `"4"`, `"5"`, 1), "checksum"},
		{`{"policyName":"static","defaultCpuSet":"0-","checksum":0}`, `defaultCpuSet "0-"`},
		{`{"policyName":"static","defaultCpuSet":"0-99999999"}`, "no machine has a CPU 99999999"},
		{`{"policyName":"static","defaultCpuSet":"0","entries":{"a":{"x":"b"}}}`, `entries[a][x] "b"`},
		{`{"policyName":"static","defaultCpuSet":"0","entries":{"a":{"x":""}}}`, `entries[a][x] "": no CPUs`},
		{`{"policyName":"static","defaultCpuSet":"0","podEntries":{"a":{}},"checksum":1}`, "PodLevelResourceManagers"},
	} {
		check.Says(t, check.Err(Parse([]byte(c.file))), c.want, "%s", c.file)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(kubeletEmpty))
	f.Add([]byte(kubeletTwo))
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-99999999"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if err != nil {
			return
		}
		again, err := Parse(s.Format())
		if err != nil || string(again.Format()) != string(s.Format()) {
			t.Errorf("%s: %v, %s", data, err, s.Format())
		}
	})
}
