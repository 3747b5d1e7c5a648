package volumeplan

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// greedy is a pod with n volumes, and what is known of the Secret s and the ConfigMap m, whose key a has 16 n bytes.
func greedy(n, volumes int, source func(i int) v1.VolumeSource) (*v1.Pod, podobjects.Set) {
	long := strings.Repeat("0123456789abcdef", n)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greedy", Annotations: map[string]string{"long": long}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
	}
	c := &pod.Spec.Containers[0]
	for i := range volumes {
		name := fmt.Sprint("v", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source(i)})
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	ref := func(k podobjects.Kind, name string) podobjects.Ref {
		return podobjects.Ref{Kind: k, Namespace: "default", Name: name}
	}
	return pod, podobjects.NewSet([]podobjects.Entry{
		{Ref: ref(podobjects.Secret, "s"), State: podobjects.Found, Object: &v1.Secret{Data: map[string][]byte{"a": []byte(long)}}},
		{Ref: ref(podobjects.ConfigMap, "m"), State: podobjects.Found, Object: &v1.ConfigMap{Data: map[string]string{"a": long}}},
	})
}

// TestMany: with four times as many volumes or files, each of four times as much that they have in common, a plan takes
// four times as long, and not sixteen times.
func TestMany(t *testing.T) {
	secret := func(items []v1.KeyToPath) v1.VolumeSource {
		return v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", Items: items}}
	}
	inMemory := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}
	config := v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
		LocalObjectReference: v1.LocalObjectReference{Name: "m"},
	}}
	for _, c := range []struct {
		name    string
		volumes func(n int) int
		source  func(n int) func(i int) v1.VolumeSource
	}{
		{"files of one key", func(int) int { return 1 }, func(n int) func(int) v1.VolumeSource {
			var items []v1.KeyToPath
			for i := range n {
				items = append(items, v1.KeyToPath{Key: "a", Path: fmt.Sprint(i)})
			}
			return func(int) v1.VolumeSource { return secret(items) }
		}},
		{"files of annotations", func(int) int { return 1 }, func(n int) func(int) v1.VolumeSource {
			var items []v1.DownwardAPIVolumeFile
			for i := range n {
				items = append(items, v1.DownwardAPIVolumeFile{
					Path: fmt.Sprint(i), FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.annotations"},
				})
			}
			return func(int) v1.VolumeSource {
				return v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: items}}
			}
		}},
		{"volumes of one Secret", func(n int) int { return n }, func(int) func(int) v1.VolumeSource {
			return func(int) v1.VolumeSource { return secret(nil) }
		}},
		{"volumes of one ConfigMap", func(n int) int { return n }, func(int) func(int) v1.VolumeSource {
			return func(int) v1.VolumeSource { return config }
		}},
		{"volumes in memory", func(n int) int { return n }, func(int) func(int) v1.VolumeSource {
			return func(int) v1.VolumeSource { return inMemory }
		}},
		{"claims", func(n int) int { return n }, func(int) func(int) v1.VolumeSource {
			return func(i int) v1.VolumeSource {
				return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint(i)}}
			}
		}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			linear.Held(t, 1000, func(n int) func() {
				pod, objects := greedy(n, c.volumes(n), c.source(n))
				return func() {
					check.Equal(t, len(Plan(pod, objects, nil, nil)), c.volumes(n), "volumes")
				}
			})
		})
	}
}
