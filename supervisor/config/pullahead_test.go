package config

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestPullAhead(t *testing.T) {
	files := map[string]string{
		"lists/a.list":   "!# what pods want\n\nreg.io/a:1   # soon\n reg.io/b@sha256:0123456789012345678901234567890123456789012345678901234567890123\n",
		"lists/b.list":   "!reg.io/c:latest every=24h\n",
		"lists/other":    "!not read",
		"bad.list":       "!reg.io/a:1\nUPPER\nreg.io/a:1 every=1s\nreg.io/a:1 often\n",
		"none/README.md": "!none",
	}
	got := good(t, files, "--pull-ahead-images=reg.io/x:1, y", "--pull-ahead-lists=/lists").PullAhead()
	want := []imagecache.Image{
		{Name: "reg.io/x:1"}, {Name: "y"}, {Name: "reg.io/a:1"},
		{Name: "reg.io/b@sha256:0123456789012345678901234567890123456789012345678901234567890123"},
		{Name: "reg.io/c:latest", Every: 24 * time.Hour},
	}
	check.Deep(t, got, want, "it")
	if got := good(t, files, "--pull-ahead-lists=/lists/b.list").PullAhead(); len(got) != 1 {
		t.Errorf("one file: %+v", got)
	}
	for arg, want := range map[string][]string{
		"--pull-ahead-images=UPPER":    {`--pull-ahead-images: UPPER`, "couldn't parse image name"},
		"--pull-ahead-lists=/absent":   {"--pull-ahead-lists: /absent", "file does not exist"},
		"--pull-ahead-lists=/none":     {"--pull-ahead-lists: /none", "the directory has no file that ends with .list"},
		"--pull-ahead-lists=/bad.list": {"/bad.list: line 2: UPPER", "line 3: reg.io/a:1 every=1s", "a minute or more", "line 4: reg.io/a:1 often", "every=24h may follow"},
	} {
		_, err := load(t, files, arg)
		for _, w := range want {
			wantError(t, err, w)
		}
	}
}
