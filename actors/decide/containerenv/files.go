package containerenv

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/envfile"
)

// File names a file that variables are taken from: one in a volume of the pod.
type File struct{ Volume, Path string }

// Files is what is in them; one that is not there is nil.
type Files map[File][]byte

// FilesOf are those that a container's variables are taken from, in their order,
// each once (core/v1 EnvVarSource.fileKeyRef, KEP-3721).
func FilesOf(c *v1.Container) []File {
	var out []File
	seen := map[File]bool{}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil || from.FileKeyRef == nil {
			continue
		}
		f := File{from.FileKeyRef.VolumeName, from.FileKeyRef.Path}
		if !seen[f] {
			seen[f] = true
			out = append(out, f)
		}
	}
	return out
}

// key gives the value that a variable takes from a file; set is false if that is
// optional and not there.
func (f Files) key(r *v1.FileKeySelector) (value string, set bool, err error) {
	optional := r.Optional != nil && *r.Optional
	data := f[File{r.VolumeName, r.Path}]
	if data == nil {
		if optional {
			return "", false, nil
		}
		return "", false, fmt.Errorf("couldn't parse env file: there is no %s in volume %q", r.Path, r.VolumeName)
	}
	value, set, err = envfile.Value(data, r.Key)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("couldn't parse env file %s of volume %q: %w", r.Path, r.VolumeName, err)
	case !set && !optional:
		return "", false, fmt.Errorf("environment variable key %q not found in file %s of volume %q", r.Key,
			r.Path, r.VolumeName)
	}
	return value, set, nil
}
