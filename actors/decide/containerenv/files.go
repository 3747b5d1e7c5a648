package containerenv

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/envfile"
)

// File names a file, in a volume of the pod, that sets variables.
type File struct{ Volume, Path string }

// Files holds the content of files; nil for a missing one.
type Files map[File][]byte

// FilesOf are the files that set a container's variables, in order and without duplicates (core/v1
// EnvVarSource.fileKeyRef, KEP-3721).
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

// key returns the value of a variable from a file. set is false if it is optional and missing.
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
