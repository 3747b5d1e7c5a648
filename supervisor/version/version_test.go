package version

import (
	"runtime/debug"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

func TestShownVersion(t *testing.T) {
	api := func(v string) []*debug.Module { return []*debug.Module{{Path: "k8s.io/api", Version: v}} }
	for _, tt := range []struct {
		name, set, own string
		deps           []*debug.Module
		want           string
	}{
		{"released", "0.36.0", "(devel)", api("v0.36.6"), "v1.36.6+troupe.0.36.0"},
		{"installed by Go", "", "v1.2.3", api("v0.36.6"), "v1.36.6+troupe.1.2.3"},
		{"not released", "", "(devel)", api("v0.36.6"), "v1.36.6+troupe.devel"},
		{"from a checkout", "", "v0.0.0-20300101-abc+dirty", api("v0.36.6"), "v1.36.6+troupe.0.0.0-20300101-abc.dirty"},
		{"a library of its own", "", "", api("v0.37.0-alpha.1"), "v1.36.0+troupe.devel"},
		{"nothing known", "", "", nil, "v1.36.0+troupe.devel"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := shown(tt.set, &debug.BuildInfo{Main: debug.Module{Version: tt.own}, Deps: tt.deps})
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if v, err := version.ParseSemantic(got); err != nil || v.Minor() != 36 {
				t.Errorf("%s: others read %v, %v", got, v, err)
			}
		})
	}
}

func TestLine(t *testing.T) {
	info := &debug.BuildInfo{
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}},
		Deps:     []*debug.Module{{Path: "k8s.io/api", Version: "v0.36.6"}},
	}
	info.Main.Version = "v1.2.3"
	const want = "troupe 1.2.3 0123456789ab (modified) for Kubernetes v1.36.6, go"
	if got := line("", info); !strings.HasPrefix(got, want) {
		t.Error(got)
	}
	if got := line("0.36.0", info); !strings.HasPrefix(got, "troupe 0.36.0 ") {
		t.Error(got)
	}
}
