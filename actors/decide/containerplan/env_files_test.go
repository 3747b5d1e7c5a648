package containerplan

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
	"github.com/troupe-dev/troupe/tests/check"
)

func fromEnvFile(name, path, key string, optional bool) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: path, Key: key, Optional: &optional}}}
}

func TestFiles(t *testing.T) {
	files := EnvFiles{{"v", "x.env"}: ParseEnvFile([]byte("A='1'\nB='2'\n"), "A", "B"), {"v", "bad"}: ParseEnvFile([]byte("A"))}
	for _, c := range []struct {
		name string
		env  []v1.EnvVar
		want string
	}{
		{"a key", []v1.EnvVar{fromEnvFile("V", "x.env", "B", false)}, "V=2"},
		{"seen by later ones", []v1.EnvVar{fromEnvFile("V", "x.env", "A", false), {Name: "W", Value: "<$(V)>"}}, "V=1 W=<1>"},
		{"no such key", []v1.EnvVar{fromEnvFile("V", "x.env", "C", false)}, `env V: environment variable key "C" not found in file x.env of volume "v"`},
		{"no such key, optional", []v1.EnvVar{fromEnvFile("V", "x.env", "C", true)}, ""},
		{"no such file", []v1.EnvVar{fromEnvFile("V", "none", "C", false)}, `env V: couldn't parse env file: there is no none in volume "v"`},
		{"no such file, optional", []v1.EnvVar{fromEnvFile("V", "none", "C", true)}, ""},
		{"not such a file", []v1.EnvVar{fromEnvFile("V", "bad", "A", true)}, `env V: couldn't parse env file bad of volume "v": line 1: there is no =`},
	} {
		t.Run(c.name, func(t *testing.T) {
			container := &v1.Container{Env: c.env}
			e, err := EnvironmentOf(&podspec.Downward{Pod: &v1.Pod{}}, podobjects.Standalone(), files, container, &Expansion{Left: MaxExpanded})
			var got []string
			if err != nil {
				got = []string{err.Error()}
			} else {
				for _, name := range e.Names() {
					v, _ := e.Lookup(name)
					got = append(got, name+"="+v)
				}
			}
			check.Equal(t, strings.Join(got, " "), c.want, "got")
		})
	}
}

func TestFilesOf(t *testing.T) {
	pod := &v1.Pod{}
	pod.Spec.Volumes = []v1.Volume{
		{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "later", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}},
	}
	paths := smallmap.Map[string, string]{{Key: "v", Value: "/pods/v"}, {Key: "host", Value: "/"}, {Key: "none", Value: "/x"}}
	several, err := EnvFilesOf(pod, &v1.Container{Env: []v1.EnvVar{fromEnvFile("A", "y", "k", false), {Name: "B", Value: "x"}, fromEnvFile("C", "x", "k", false), fromEnvFile("D", "y", "l", false)}}, paths)
	check.Fatal(t, err)
	check.Deep(t, several, []EnvFile{{"v", "/pods/v", "y", []string{"k", "l"}}, {"v", "/pods/v", "x", []string{"k"}}}, "files")
	got := EnvFilesRead(several, []*EnvFileValues{ParseEnvFile([]byte("k='1'"), "k"), nil})
	if set, _, err := got[place{"v", "y"}].Value("k"); err != nil || set != "1" || got[place{"v", "x"}] != nil {
		t.Errorf("the first sets k to %q, %v; the second, which is missing, is %v", set, err, got[place{"v", "x"}])
	}
	for _, volume := range []string{"later", "host", "none"} { // not mounted yet, not an emptyDir, not of the pod
		v := fromEnvFile("A", "y", "k", true)
		v.ValueFrom.FileKeyRef.VolumeName = volume
		want := `cannot find the volume "` + volume + `" referenced by FileKeyRef`
		if _, err := EnvFilesOf(pod, &v1.Container{Env: []v1.EnvVar{v}}, paths); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestRead: of many long files that stays which variables are made of, and no more than a program can be started with.
func TestRead(t *testing.T) {
	variable := func(name string, bytes int) []byte {
		return []byte(name + "='" + strings.Repeat("x", bytes) + "'\n")
	}
	const long = 1 << 20
	for _, c := range []struct {
		name  string
		files int
		data  []byte
		kept  int
		err   error
	}{
		{"little of much", 100, append(variable("OTHER", long), variable("K", 10)...), 100 * len("K0123456789"), nil},
		{"as much as fits", 5, variable("K", long), 5 * (1 + long), nil},
		{"too much", 100, variable("K", long), 0, ErrTooLong},
		{"not there", 2, nil, 0, nil},
	} {
		files := make([]EnvFile, c.files)
		for i := range files {
			files[i].Keys = []string{"K"}
		}
		asked := 0
		read, err := ReadEnvFiles(files, func(EnvFile) ([]byte, error) { asked++; return bytes.Clone(c.data), nil })
		kept := 0
		for _, f := range read {
			if f != nil {
				kept += f.Bytes()
			}
		}
		if !errors.Is(err, c.err) || kept != c.kept || err != nil && asked > 6 {
			t.Errorf("%s: %v, %d bytes, %d files were read", c.name, err, kept, asked)
		}
	}
}
