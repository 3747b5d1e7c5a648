package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/manifest/strictyaml"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// AnnotationLife distinguishes the mirror pods of one static pod that was stopped, because its
// manifest was gone, and began again under the same UID. Absent in its first life.
const AnnotationLife = "troupe.dev/life"

// AnnotationManifest is the content hash of a manifest that gives its pod a UID. Of other pods the UID is that hash.
const AnnotationManifest = "troupe.dev/manifest"

// InLife is a static pod in a later life.
func InLife(pod *v1.Pod, life uint32) *v1.Pod {
	p := *pod
	p.Annotations = maps.Clone(pod.Annotations)
	p.Annotations[AnnotationLife] = strconv.FormatUint(uint64(life), 10)
	return &p
}

// identify gives a pod from a manifest its UID, name, namespace, node and
// annotations.
func identify(pod *v1.Pod, tree strictyaml.Tree, source Source, node Node, now time.Time) {
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Name += "-" + strings.ToLower(node.Name)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = node.Name
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	if hash := contentHash(tree, source, node); pod.UID == "" {
		pod.UID = types.UID(hash)
	} else {
		pod.Annotations[AnnotationManifest] = hash
	}
	pod.Annotations[podspec.AnnotationSource] = string(source.Origin)
	pod.Annotations[podspec.AnnotationHash] = string(pod.UID)
	pod.Annotations[podspec.AnnotationSeen] = now.Format(time.RFC3339Nano)
	if source.Origin == podspec.File {
		tolerateNoExecute(pod)
	}
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
}

// contentHash is 128 bits over node, source and what the manifest says, in the
// form of a UUID. Comments, the order of keys and white space do not change
// it; neither does an upgrade of the agent, because defaults are not in it.
func contentHash(tree strictyaml.Tree, source Source, node Node) string {
	h := sha256.New()
	// Each part with its length, so that no two inputs write the same bytes.
	for _, part := range []string{"troupe static pod", node.Name, string(source.Origin), source.Name} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash never fails
	}
	canonical, err := json.Marshal(withoutNulls(tree)) // keys sorted
	if err != nil {
		panic(fmt.Sprintf("manifest: encode a parsed document: %v", err))
	}
	_, _ = h.Write(canonical)
	x := hex.EncodeToString(h.Sum(nil)[:16])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

// withoutNulls drops map entries that are null: they mean the same as none.
func withoutNulls(tree strictyaml.Tree) strictyaml.Tree {
	switch t := tree.(type) {
	case map[string]any:
		m := make(map[string]any, len(t))
		for k, v := range t {
			if v != nil {
				m[k] = withoutNulls(v)
			}
		}
		return m
	case []any:
		list := make([]any, len(t))
		for i, v := range t {
			list[i] = withoutNulls(v)
		}
		return list
	}
	return tree
}

// tolerateNoExecute keeps a static pod on its node despite taints: it can run nowhere else.
func tolerateNoExecute(pod *v1.Pod) {
	toleration := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	for _, t := range pod.Spec.Tolerations {
		if t.MatchToleration(&toleration) && t.TolerationSeconds == nil {
			return
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
}

func keyOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
