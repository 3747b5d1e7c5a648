package sources

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// endRemade tells of the pods of manifests that were made again, and say what they said. The pod of one that is broken
// now runs on.
func (s *sources) endRemade(ctx *kernel.Context[Message], reads []manifest.Read) {
	if len(s.remade) == 0 {
		return
	}
	before, _ := manifest.Desired(s.file)
	var again []types.UID
	for _, r := range reads {
		if !slices.Contains(s.remade, r.Source) {
			continue
		}
		for _, p := range r.Pods {
			if slices.ContainsFunc(before, func(b *v1.Pod) bool { return b.UID == p.UID }) {
				again = append(again, p.UID)
				ctx.Log().Info().Str("manifest", r.Source).Str("pod", p.Namespace+"/"+p.Name).
					Msg("static pod manifest was removed and added again: restarting its pod")
			}
		}
	}
	s.remade = nil
	if len(again) > 0 {
		s.deps.Remade(again)
	}
}
