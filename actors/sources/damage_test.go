package sources

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/damage"
)

func TestDamagedCheckpoint(t *testing.T) {
	var read []manifest.Read
	for _, name := range []string{"a", "b"} {
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  volumes: [{name: v, emptyDir: {}}]\n" +
			"  containers: [{name: app, image: img, ports: [{containerPort: 80}], volumeMounts: [{name: v, mountPath: /v}]}]\n"
		d := manifest.Decode([]byte(text), manifest.Source{Origin: podspec.File, Name: name}, manifest.Node{Name: "n1"}, time.Time{})
		read = append(read, manifest.Read{Source: name, Decoded: d})
	}
	read = append(read, manifest.Read{Source: "c", Decoded: manifest.Reject("c", "no YAML")})
	content := check.Value(json.Marshal(remembered{File: manifest.Merge(manifest.State{}, read)}))(t)
	damage.Feed(t, &saveFile, string(content))
}
