package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
)

// Find asks the node for its pods of a name, the newest first, or for all if the name is empty;
// each with its status. It must end with ctx. Callers must not change the result.
type Find func(ctx context.Context, namespace, name string) ([]*v1.Pod, error)

// newest is the newest pod of a name; nil if there is none, which the client was told.
func (find Find) newest(w http.ResponseWriter, r *http.Request, namespace, name string) *v1.Pod {
	found, err := find(r.Context(), namespace, name)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return nil
	case len(found) == 0:
		http.Error(w, fmt.Sprintf("pod %q does not exist", name), http.StatusNotFound)
		return nil
	}
	return found[0]
}

// PodsRoute is /pods: the node's desired pods, with their status.
func PodsRoute(find Find) Route {
	return Route{Path: "/pods", Methods: []string{http.MethodGet}, Subresources: Pods, ReadOnly: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			found, err := find(r.Context(), "", "")
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			list := make([]v1.Pod, len(found))
			for i, p := range found {
				list[i] = *p
				list[i].Annotations = podspec.Annotations(p)
			}
			writePods(w, list)
		})}
}

// RunningPodsRoute is /runningpods: the pods in the runtime, desired or not.
func RunningPodsRoute(runtime port.Runtime) Route {
	return Route{Path: "/runningpods", Methods: []string{http.MethodGet}, Subresources: Pods,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen, err := answer.Of(r.Context(), func(done func(observed.Runtime, error)) { runtime.List(r.Context(), "", done) })
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			writePods(w, running(seen))
		})}
}

// running lists the running pods of the runtime, with only the fields that the runtime knows.
func running(seen observed.Runtime) (out []v1.Pod) {
	for _, rp := range seen.Pods {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: rp.Ref.Namespace, Name: rp.Ref.Name, UID: rp.Ref.UID}}
		for i := range rp.Containers {
			if c := &rp.Containers[i]; c.State == observed.ContainerRunning {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
			}
		}
		up := slices.ContainsFunc(rp.Sandboxes, func(s observed.Sandbox) bool { return s.State == observed.SandboxReady })
		if up || len(p.Spec.Containers) > 0 {
			out = append(out, p)
		}
	}
	return out
}

func writePods(w http.ResponseWriter, list []v1.Pod) {
	slices.SortFunc(list, func(x, y v1.Pod) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	if list == nil {
		list = []v1.Pod{}
	}
	writeJSON(w, v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: list})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// A disconnected client is no error, and all values can be encoded.
	json.NewEncoder(w).Encode(v) //nolint:errcheck // see above
}

// ConfigzRoute is /configz: the node's configuration.
func ConfigzRoute(kubeletconfig any) Route {
	return Route{Path: "/configz", Methods: []string{http.MethodGet}, Subresources: Configz,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, map[string]any{"kubeletconfig": kubeletconfig})
		})}
}

// HealthzRoutes are /healthz and the paths below it.
func HealthzRoutes(h http.Handler) []Route {
	r := Route{Methods: []string{http.MethodGet}, Subresources: Healthz, ReadOnly: true, Handler: h}
	all, one := r, r
	all.Path, one.Path = "/healthz", "/healthz/"
	return []Route{all, one}
}
