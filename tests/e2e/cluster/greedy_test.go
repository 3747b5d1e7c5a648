package cluster

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// attack is a valid pod that takes as much of the node's agent as it can.
type attack struct {
	name string
	// pods is how many there are, 0 for one.
	pods int
	// prepare makes what they need.
	prepare func(*testing.T, *bed)
	change  func(*v1.PodSpec)
	// over is nil when the agent has done with such a pod what can be done: it runs, or says what is too much.
	over func(*v1.Pod) error
	// refused is what an event says instead, where the agent may have 128 MiB; empty if nothing.
	refused string
}

const (
	pastExecve = "more than 6 MiB with all variables expanded"
	memoryOf   = "the node agent may have 128Mi of memory"
)

// refused is nil when a container of a pod waits with these words.
func refused(words string) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if w := s.State.Waiting; w != nil && strings.Contains(w.Message, words) {
				return nil
			}
		}
		return fmt.Errorf("no container waits with %q", words)
	}
}

// doubling is a chain of variables, each sixteen times as long as the one before.
func doubling(n int) (env []v1.EnvVar) {
	env = []v1.EnvVar{{Name: "A0", Value: "0123456789abcdef"}}
	for i := 1; i < n; i++ {
		env = append(env, v1.EnvVar{Name: fmt.Sprint("A", i), Value: strings.Repeat(fmt.Sprintf("$(A%d)", i-1), 16)})
	}
	return env
}

// execProbes are containers with as long a command in each probe as a program can be started with.
func execProbes(s *v1.PodSpec) {
	env := v1.EnvVar{Name: "A", Value: strings.Repeat("x", 1<<10)}
	c := s.Containers[0]
	s.Containers = nil
	for i := range 40 {
		c := c
		c.Name, c.Env = fmt.Sprint("app-", i), []v1.EnvVar{env}
		p := &v1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1000}
		p.Exec = &v1.ExecAction{Command: []string{"/work", "print", strings.Repeat("$(A)", 5<<10)}}
		c.LivenessProbe = p
		s.Containers = append(s.Containers, c)
	}
}

const (
	greedyCredentials = "credentials"
	greedyFiles       = "files"
	greedyKey         = "a"
	lockedImage       = "troupe.local/greedy/app:v1"
)

func secretOf(name string, data map[string][]byte, kind v1.SecretType) func(*testing.T, *bed) {
	return func(t *testing.T, b *bed) {
		s := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, Data: data}
		check.Value(b.admin.CoreV1().Secrets(b.name).Create(t.Context(), s, metav1.CreateOptions{}))(t)
	}
}

// lockOnce is of the image of manyCredentials.
var lockOnce sync.Once

func manyCredentials(t *testing.T, b *bed) {
	if b.served != nil {
		b.served.Lock(lockedImage, "nobody", "none of them")
	} else {
		lockOnce.Do(func() { // there is one registry, and nobody may push the image once more
			check.Equal(t, guard(t, "greedy", "work", func(string, string) bool { return false }), lockedImage, "the image")
		})
	}
	auths := map[string]any{}
	for i := range 10_000 {
		auth := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "u:%d", i))
		auths[fmt.Sprintf("[t%d]roupe.local", i)] = map[string]string{"auth": auth}
	}
	data := check.Value(json.Marshal(map[string]any{"auths": auths}))(t)
	secretOf(greedyCredentials, map[string][]byte{v1.DockerConfigJsonKey: data}, v1.SecretTypeDockerConfigJson)(t, b)
}

func greedyAttacks(t *testing.T) []attack {
	emptyDir := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
	volumes := func(n int, of func(i int) v1.VolumeSource) func(*v1.PodSpec) {
		return changes(work("sleep"), func(s *v1.PodSpec) {
			for i := range n {
				name := fmt.Sprint("v", i)
				s.Volumes = append(s.Volumes, volume(name, of(i)))
				s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
			}
		})
	}
	silent, _ := silentServer(t)
	envFile := func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("data", emptyDir)}
		app := &s.Containers[0]
		app.VolumeMounts = []v1.VolumeMount{mounted("data")}
		first := *app
		first.Name, first.Args = "first", []string{"append", "/data/env", "K='"}
		const parts = 10 // a kernel starts no program with an argument of 128 KiB
		for range parts {
			first.Args = append(first.Args, strings.Repeat("\n", (1<<20-32)/parts))
		}
		first.Args = append(first.Args, "'")
		s.InitContainers = []v1.Container{first}
		for i := range 50 {
			app.Env = append(app.Env, v1.EnvVar{Name: fmt.Sprint("V", i), ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{
				VolumeName: "data", Path: "env", Key: "NONE", Optional: new(true),
			}}})
		}
	}
	return []attack{
		{name: "2,000 emptyDir volumes", change: volumes(2000, func(int) v1.VolumeSource { return emptyDir }), over: ready},
		{
			name: "a pull secret with 10,000 credentials that fit, 4 pods", pods: 4, prepare: manyCredentials,
			change: changes(work("sleep"), func(s *v1.PodSpec) {
				s.Containers[0].Image, s.ImagePullSecrets = lockedImage, []v1.LocalObjectReference{{Name: greedyCredentials}}
			}),
			over: phase(v1.PodPending),
		},
		{
			name: "300 NFS volumes of a server that does not answer, with subPaths", over: phase(v1.PodPending),
			change: changes(volumes(300, func(i int) v1.VolumeSource {
				return v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: silent, Path: fmt.Sprint("/", i)}}
			}), func(s *v1.PodSpec) {
				for i := range s.Containers[0].VolumeMounts {
					s.Containers[0].VolumeMounts[i].SubPath = "part"
				}
			}),
		},
		{
			name: "variables that expand to 64 MiB", over: refused(pastExecve),
			change: changes(work("sleep"), func(s *v1.PodSpec) {
				s.Containers[0].Env = append(doubling(6), v1.EnvVar{Name: "B", Value: "$(A5)$(A5)$(A5)$(A5)"})
			}),
		},
		{
			name: "10 pods with variables of 5 MiB each", pods: 10, over: ready,
			change: changes(work("sleep"), func(s *v1.PodSpec) {
				s.Containers[0].Env = append(doubling(5), v1.EnvVar{Name: "B", Value: strings.Repeat("$(A4)", 4)})
			}),
		},
		{
			name: "3,000 files of one Secret key of 700 KiB", over: ready, refused: memoryOf,
			prepare: secretOf(greedyFiles, map[string][]byte{greedyKey: make([]byte, 700<<10)}, v1.SecretTypeOpaque),
			change: changes(work("sleep"), func(s *v1.PodSpec) {
				source := &v1.SecretVolumeSource{SecretName: greedyFiles}
				for i := range 3000 {
					source.Items = append(source.Items, v1.KeyToPath{Key: greedyKey, Path: strconv.Itoa(i)})
				}
				s.Volumes = []v1.Volume{volume("data", v1.VolumeSource{Secret: source})}
				s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("data")}
			}),
		},
		{name: "an env file of 1 MiB with 50 variables", over: ready, change: changes(work("sleep"), envFile)},
		{name: "40 probes with commands of 5 MiB", change: changes(work("sleep"), execProbes), over: ready},
		{
			name: "300 containers", over: ready,
			change: changes(work("sleep"), func(s *v1.PodSpec) {
				for i := range 299 {
					c := s.Containers[0]
					c.Name = fmt.Sprint("app-", i)
					s.Containers = append(s.Containers, c)
				}
			}),
		},
	}
}
