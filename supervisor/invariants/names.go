package invariants

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// OneUID: of the pods with the same namespace and name, the containers of one UID run.
func OneUID(pods []observed.RuntimePod) string {
	type name struct{ namespace, name string }
	alive := map[name]types.UID{}
	for i := range pods {
		p := &pods[i]
		key := name{p.Ref.Namespace, p.Ref.Name}
		for j := range p.Containers {
			if p.Containers[j].State != observed.ContainerRunning {
				continue
			}
			if other, is := alive[key]; is && other != p.Ref.UID {
				return fmt.Sprintf("pod %s runs twice: %s and %s", p.Ref, other, p.Ref.UID)
			}
			alive[key] = p.Ref.UID
		}
	}
	return ""
}
