package simcri

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// AnnotationPrefix precedes the keys of all annotations that script a container.
const AnnotationPrefix = "sim.troupe.dev/"

// imageSizeKey is the only key for a pull and not for a start.
const imageSizeKey = "image-size"

// Key is one key of a script annotation.
type Key struct {
	Name string
	// Value is the syntax of the value.
	Value string
	// Means is its effect.
	Means string
	set   func(*Script, string) error
}

// Keys are the keys that may follow AnnotationPrefix, or AnnotationPrefix, a container's name and
// a dot. DUR is a duration: 2s, 1s..3s (uniform) or 1s~3s (lognormal, median and 99th
// percentile). BYTES is a quantity such as 64Mi.
func Keys() []Key { return slices.Clone(keys) }

var keys = []Key{
	{"exit-code", "0..255", "exits with this code; immediately if run-for is not set",
		code(func(s *Script) *int32 { return &s.ExitCode })},
	{"run-for", "DUR", "exits after this time", dist(func(s *Script) *Dist { return &s.RunFor })},
	{"crash-loop", "true|N", "every run, or the first N runs, crash: after run-for (0s) with exit-code (1)",
		setCrashLoop},
	{"oom-after", "DUR", "is OOM-killed after this time", dist(func(s *Script) *Dist { return &s.OOMAfter })},
	{"oom-late", "DUR", "delay until its status shows OOMKilled; until then the reason is Error",
		dist(func(s *Script) *Dist { return &s.OOMLate })},
	{"start-latency", "DUR", "additional time of its start", dist(func(s *Script) *Dist { return &s.StartLatency })},
	{"start-error", "TEXT", "its start fails with this message", func(s *Script, v string) error {
		s.StartError = v
		return nil
	}},
	{"term-delay", "DUR", "exits this long after the stop signal", dist(func(s *Script) *Dist { return &s.TermDelay })},
	{"term-exit-code", "0..255", "exits with this code after the stop signal",
		code(func(s *Script) *int32 { return &s.TermExitCode })},
	{"ignore-term", "true|false", "ignores the stop signal", flag(func(s *Script) *bool { return &s.IgnoreTERM })},
	{"exec-exit-code", "0..255", "exec: commands exit with this code",
		code(func(s *Script) *int32 { return &s.Answer.ExitCode })},
	{"exec-output", "TEXT", "exec: commands print this", func(s *Script, v string) error {
		s.Answer.Stdout = v
		return nil
	}},
	{"exec-delay", "DUR", "exec: commands take this long", dist(func(s *Script) *Dist { return &s.Answer.Delay })},
	{"exec-hang", "true|false", "exec: commands never finish", flag(func(s *Script) *bool { return &s.Answer.Hang })},
	{"startup-time", "DUR", "all its probes fail until this long after its start",
		dist(func(s *Script) *Dist { return &s.Health.StartupTime })},
	{"ready-after", "DUR", "its readiness probe fails until this long after its start",
		dist(func(s *Script) *Dist { return &s.Health.ReadyAfter })},
	{"ready-for", "DUR", "its readiness probe alternates: it succeeds for this long, then fails for unready-for",
		dist(func(s *Script) *Dist { return &s.Health.ReadyFor })},
	{"unready-for", "DUR", "its readiness probe alternates: it succeeds for ready-for, then fails for this long",
		dist(func(s *Script) *Dist { return &s.Health.UnreadyFor })},
	{"unhealthy-after", "DUR", "all its probes fail after this time since its start",
		dist(func(s *Script) *Dist { return &s.Health.UnhealthyAfter })},
	{"probe-delay", "DUR", "additional time of its probes", dist(func(s *Script) *Dist { return &s.Health.Delay })},
	{"probe-hang", "true|false", "its probes get no answer", flag(func(s *Script) *bool { return &s.Health.Hang })},
	{"cpu-millicores", "N", "its CPU usage", number(func(s *Script) *int64 { return &s.CPUMillicores })},
	{"memory", "BYTES", "its memory usage at the start", bytes(func(s *Script) *int64 { return &s.MemoryBytes })},
	{"memory-growth", "BYTES", "growth of its memory usage per second; it is OOM-killed at its memory limit",
		bytes(func(s *Script) *int64 { return &s.MemoryGrowth })},
	{"log-rate", "BYTES", "log output per second", bytes(func(s *Script) *int64 { return &s.LogRate })},
	{imageSizeKey, "BYTES", "size of its image, for the duration of a pull", bytes(nil)},
}

func setCrashLoop(s *Script, v string) error {
	switch n, err := strconv.ParseInt(v, 10, 32); {
	case v == "true":
		s.CrashLoop = -1
	case v == "false":
		s.CrashLoop = 0
	case err != nil || n < 0:
		return fmt.Errorf("%q: want true, false or how many incarnations crash", v)
	default:
		s.CrashLoop = int32(n)
	}
	return nil
}

func code(field func(*Script) *int32) func(*Script, string) error {
	return func(s *Script, v string) error {
		n, err := strconv.ParseUint(v, 10, 8)
		if err != nil {
			return fmt.Errorf("%q: want an exit code, 0 to 255", v)
		}
		*field(s) = int32(n)
		return nil
	}
}

func dist(field func(*Script) *Dist) func(*Script, string) error {
	return func(s *Script, v string) error {
		d, err := ParseDist(v)
		if err != nil {
			return err
		}
		*field(s) = d
		return nil
	}
}

func flag(field func(*Script) *bool) func(*Script, string) error {
	return func(s *Script, v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("%q: want true or false", v)
		}
		*field(s) = b
		return nil
	}
}

func number(field func(*Script) *int64) func(*Script, string) error {
	return func(s *Script, v string) error {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return fmt.Errorf("%q: want a whole number, 0 to %d", v, uint32(math.MaxUint32))
		}
		*field(s) = int64(n)
		return nil
	}
}

func bytes(field func(*Script) *int64) func(*Script, string) error {
	return func(s *Script, v string) error {
		n, err := parseBytes(v)
		if err == nil && field != nil {
			*field(s) = n
		}
		return err
	}
}

func parseBytes(v string) (int64, error) {
	q, err := resource.ParseQuantity(v)
	if err != nil || q.Sign() < 0 || q.CmpInt64(math.MaxInt64) > 0 {
		return 0, fmt.Errorf("%q: want a number of bytes such as 64Mi", v)
	}
	return q.Value(), nil
}

// scriptFromAnnotations is base with the changes of the pod's annotations, or base itself without
// any.
func scriptFromAnnotations(
	base *Script, pod observed.PodRef, annotations map[string]string, containerName string,
) (*Script, error) {
	own, err := annotationsOf(pod, annotations, containerName)
	if err != nil || len(own) == 0 {
		return base, err
	}
	s := *base
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if err := findKey(name).set(&s, own[name].value); err != nil {
			return nil, fmt.Errorf("pod %s: annotation %s: %w", pod, own[name].key, err)
		}
	}
	if err := s.whole(); err != nil {
		return nil, fmt.Errorf("pod %s: container %s: annotations %w", pod, containerName, err)
	}
	if _, ok := own["exit-code"]; ok && s.RunFor.IsZero() && s.CrashLoop == 0 {
		s.RunFor = Constant(0)
	}
	return &s, nil
}

// whole validates the keys of a container together.
func (s *Script) whole() error {
	if s.Health.ReadyFor.IsZero() != s.Health.UnreadyFor.IsZero() {
		return errors.New("ready-for and unready-for: give both or none")
	}
	return nil
}

type annotation struct{ key, value string }

// annotationsOf collects the annotations of one container, by name of the key. Those for the
// container take precedence over those for all.
func annotationsOf(
	pod observed.PodRef, annotations map[string]string, containerName string,
) (map[string]annotation, error) {
	var own map[string]annotation
	unknown := ""
	for key, value := range annotations {
		rest, ok := strings.CutPrefix(key, AnnotationPrefix)
		if !ok {
			continue
		}
		name, forOne := rest, false
		if container, after, dot := strings.Cut(rest, "."); dot {
			if container != containerName {
				continue
			}
			name, forOne = after, true
		}
		if findKey(name) == nil {
			if unknown == "" || key < unknown {
				unknown = key
			}
			continue
		}
		if own == nil {
			own = map[string]annotation{}
		}
		if _, there := own[name]; !there || forOne {
			own[name] = annotation{key, value}
		}
	}
	if unknown != "" {
		return nil, unknownKey(pod, unknown)
	}
	return own, nil
}

func unknownKey(pod observed.PodRef, key string) error {
	return fmt.Errorf("pod %s: annotation %s: %w", pod, key, noSuchKey())
}

func noSuchKey() error {
	var names []string
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return fmt.Errorf("unknown key; the keys are %s", strings.Join(names, ", "))
}

// KnownKey reports whether there is a key of that name.
func KnownKey(name string) bool { return findKey(name) != nil }

// CheckKey validates one key, without its prefix, and its value.
func CheckKey(name, value string) error {
	k := findKey(name)
	if k == nil {
		return noSuchKey()
	}
	return k.set(&Script{}, value)
}

// CheckKeys validates all keys of a container, without their prefix, one by one and together.
func CheckKeys(values map[string]string) error {
	s := defaultScript
	for _, name := range slices.Sorted(maps.Keys(values)) {
		k := findKey(name)
		if k == nil {
			return fmt.Errorf("%s: %w", name, noSuchKey())
		}
		if err := k.set(&s, values[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return s.whole()
}

func findKey(name string) *Key {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i]
		}
	}
	return nil
}

// CheckAnnotations validates the script annotations of a pod, including the names of containers.
func CheckAnnotations(p *v1.Pod) error {
	var names []string
	for c := range podspec.All(&p.Spec) {
		names = append(names, c.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		rest, ok := strings.CutPrefix(key, AnnotationPrefix)
		if !ok {
			continue
		}
		if container, _, dot := strings.Cut(rest, "."); dot && !slices.Contains(names, container) {
			return fmt.Errorf("pod %s/%s: annotation %s: the pod has no container %q", p.Namespace, p.Name, key, container)
		}
	}
	for _, name := range names {
		if _, err := scriptFromAnnotations(&defaultScript, refOf(p), p.Annotations, name); err != nil {
			return err
		}
	}
	return nil
}

// imageSizeFor is the size of the image in the pod's annotations, 0 without one.
func imageSizeFor(p *v1.Pod, image string) (uint64, error) {
	if p == nil || len(p.Annotations) == 0 {
		return 0, nil
	}
	container := ""
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Image == image && container == "" {
				container = list[i].Name
			}
		}
	}
	for _, key := range []string{AnnotationPrefix + container + "." + imageSizeKey, AnnotationPrefix + imageSizeKey} {
		if v, ok := p.Annotations[key]; ok {
			n, err := parseBytes(v)
			if err != nil {
				return 0, fmt.Errorf("pod %s/%s: annotation %s: %w", p.Namespace, p.Name, key, err)
			}
			return uint64(n), nil
		}
	}
	return 0, nil
}
