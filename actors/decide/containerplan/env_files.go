package containerplan

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// EnvFile is a file, in a volume of the pod, that sets variables. Root is the volume's path on the host;
// Path is relative to it. Keys are what is asked of it.
type EnvFile struct {
	Volume, Root, Path string
	Keys               []string
}

// EnvFiles holds what files set; nothing for a missing one.
type EnvFiles map[place]*EnvFileValues

type place struct{ volume, path string }

// EnvFilesRead is what was read of files, nil for a missing one, in the same order.
func EnvFilesRead(files []EnvFile, read []*EnvFileValues) EnvFiles {
	out := make(EnvFiles, len(files))
	for i, f := range files {
		if read[i] != nil {
			out[place{f.Volume, f.Path}] = read[i]
		}
	}
	return out
}

// ReadEnvFiles reads the files of a container, one after the other: each may have a mebibyte, and there may be
// thousands. one gives the content of one, nil for a missing one. What is kept of all is no more than a program can be
// started with.
func ReadEnvFiles(files []EnvFile, one func(EnvFile) ([]byte, error)) ([]*EnvFileValues, error) {
	out, left := make([]*EnvFileValues, len(files)), MaxExpanded
	for i, f := range files {
		data, err := one(f)
		if err != nil {
			return nil, err
		}
		if data == nil {
			continue
		}
		out[i] = ParseEnvFile(data, f.Keys...)
		if left -= out[i].Bytes(); left < 0 {
			return nil, fmt.Errorf("env file %s of volume %q: %w", f.Path, f.Volume, ErrTooLong)
		}
	}
	return out, nil
}

// EnvFilesOf are the files that set a container's variables, in order and without duplicates (core/v1
// EnvVarSource.fileKeyRef, KEP-3721). paths are the paths on the host of the pod's volumes, by name.
func EnvFilesOf(pod *v1.Pod, c *v1.Container, paths smallmap.Map[string, string]) ([]EnvFile, error) {
	var out []EnvFile
	seen := map[place]int{} // in out, from 1
	at, volume := paths.Index(), podspec.VolumesOf(&pod.Spec)
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil || from.FileKeyRef == nil {
			continue
		}
		name := from.FileKeyRef.VolumeName
		root, ok := at(name)
		if v := volume(name); !ok || v == nil || v.EmptyDir == nil {
			return nil, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", name)
		}
		key := place{name, from.FileKeyRef.Path}
		if seen[key] == 0 {
			out = append(out, EnvFile{Volume: name, Root: root, Path: key.path})
			seen[key] = len(out)
		}
		f := &out[seen[key]-1]
		f.Keys = append(f.Keys, from.FileKeyRef.Key)
	}
	return out, nil
}

// key returns the value of a variable from a file. set is false if it is optional and missing.
func (f EnvFiles) key(r *v1.FileKeySelector) (value string, set bool, err error) {
	optional := r.Optional != nil && *r.Optional
	file := f[place{r.VolumeName, r.Path}]
	if file == nil {
		if optional {
			return "", false, nil
		}
		return "", false, fmt.Errorf("couldn't parse env file: there is no %s in volume %q", r.Path, r.VolumeName)
	}
	value, set, err = file.Value(r.Key)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("couldn't parse env file %s of volume %q: %w", r.Path, r.VolumeName, err)
	case !set && !optional:
		return "", false, fmt.Errorf("environment variable key %q not found in file %s of volume %q", r.Key,
			r.Path, r.VolumeName)
	}
	return value, set, nil
}
