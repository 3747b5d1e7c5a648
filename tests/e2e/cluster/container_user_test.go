package cluster

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestUserOfContainers: the status says as whom the first process of a container was started
// (KEP-3619), from the first version on that says that it runs, as with a kubelet.
//
//tier:real
func TestUserOfContainers(t *testing.T) {
	t.Parallel()
	asKubelet(t, "as-user", func(t *testing.T, b *bed, kubelet bool) {
		uid, gid, group := int64(1234), int64(4321), int64(2000)
		h := b.follow(t, "as")
		b.create(t, b.pod("as", func(s *v1.PodSpec) {
			work("sleep")(s)
			s.SecurityContext = &v1.PodSecurityContext{RunAsUser: &uid, RunAsGroup: &gid, FSGroup: &group, SupplementalGroups: []int64{3000}}
		}))
		seen := h.until(t, "a user", func(_ watch.EventType, p *v1.Pod) bool {
			return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].User != nil
		})
		last := seen[len(seen)-1]
		said, err := json.Marshal(last.Status.ContainerStatuses[0].User)
		const want = `{"linux":{"uid":1234,"gid":4321,"supplementalGroups":[2000,3000,4321]}}`
		if err != nil || string(said) != want {
			t.Errorf("user %s, want %s: %v", said, want, err)
		}
		if kubelet {
			return
		}
		for _, v := range seen {
			for _, c := range v.Status.ContainerStatuses {
				if c.State.Running != nil && c.User == nil {
					t.Errorf("version %s says that it runs, and not as whom", v.ResourceVersion)
				}
			}
		}
	})
}
