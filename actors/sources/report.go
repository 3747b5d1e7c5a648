package sources

import (
	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// report tells podset, and the log once of each problem.
func (s *sources) report(ctx *kernel.Context[Message], source podspec.Origin, state manifest.State) {
	wanted, problems := manifest.Desired(state)
	if source == podspec.File {
		problems = append(problems, s.unread...)
	}
	unread := source == podspec.File && len(s.unread) > 0
	ignored := state.Ignored()
	if source == podspec.HTTP {
		for _, list := range [...][]manifest.Problem{problems, ignored} {
			for i := range list {
				list[i].Source = manifest.ShownURL(list[i].Source)
			}
		}
	}
	noted := map[problem]bool{}
	for k := range s.noted { // order-free: a set again
		if k.source != source {
			noted[k] = true
		}
	}
	s.note(noted, source, problems, func() *zerolog.Event { return ctx.Log().Error() }, "invalid manifest")
	s.note(noted, source, ignored, func() *zerolog.Event { return ctx.Log().Warn() },
		"a part of a manifest is ignored, as by a kubelet, and its pod runs without it")
	s.noted = noted
	seen := s.fileSeen
	if source == podspec.HTTP {
		seen = s.httpSeen
	}
	u := Update{
		Source: source, Seen: seen, Unread: unread, Unsure: state.Unclear(), Pods: wanted, Problems: problems,
	}
	if source == podspec.File {
		u.Dropped = s.dropped
	}
	s.deps.Update(u)
}

// note logs those of the problems that were not logged before.
func (s *sources) note(noted map[problem]bool, source podspec.Origin, problems []manifest.Problem,
	log func() *zerolog.Event, text string) {
	for _, p := range problems {
		key := problem{source, p.Error()}
		noted[key] = true
		if s.noted[key] {
			continue
		}
		e := log().Str("source", p.Source)
		for _, f := range [...][2]string{{"field", p.Field}, {"value", p.Value}, {"problem", p.Message},
			{"keptRunning", p.Kept}} {
			if f[1] != "" {
				e = e.Str(f[0], f[1])
			}
		}
		e.Msg(text)
	}
}
