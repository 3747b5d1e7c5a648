package config

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cliflag "k8s.io/component-base/cli/flag"
	logs "k8s.io/component-base/logs/api/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// kc is short for the configuration that settings are parts of.
type kc = *kubelet.KubeletConfiguration

// setting is a field of KubeletConfiguration, and what there is to know of it.
type setting struct {
	// path is its place in a file: authentication.webhook.enabled.
	path string
	// flags override it. Of two, with a space between, the second is ours.
	flags string
	// usual is its default, as a flag would say it; empty for the zero value, and for one that follows from other fields.
	usual string
	is    mark
	// rule is what it must be; nil for anything.
	rule *rule
}

// mark says whether the agent acts on a field, and whether its value is a path, which is relative to the file it is in.
type mark uint8

const (
	acts mark = 0
	idle mark = 1 << iota
	filePath
)

// places are the steps to each setting: the index of each struct's field on the way to it.
var places = sync.OnceValue(func() map[string][][]int {
	all := make(map[string][][]int, len(settings))
	for _, s := range settings {
		t := reflect.TypeFor[kubelet.KubeletConfiguration]()
		for name := range strings.SplitSeq(s.path, ".") {
			if t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			fields := reflect.VisibleFields(t)
			i := slices.IndexFunc(fields, func(f reflect.StructField) bool {
				tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				return tag == name
			})
			if i < 0 {
				panic("config: KubeletConfiguration has no " + s.path)
			}
			all[s.path] = append(all[s.path], fields[i].Index)
			t = fields[i].Type
		}
	}
	return all
})

// in is the field in c; not valid if what it is in is not there.
func (s *setting) in(c kc) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for _, index := range places()[s.path] {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if !v.IsValid() {
			return v
		}
		v = v.FieldByIndex(index)
	}
	return v
}

// value is the field in c without its pointer; not valid if it is not there.
func (s *setting) value(c kc) reflect.Value {
	v := s.in(c)
	if v.Kind() == reflect.Pointer {
		return v.Elem()
	}
	return v
}

// define makes a flag that sets the field in c. Its kind follows from the type of the field.
func (s *setting) define(fs *pflag.FlagSet, name string, c kc) {
	usage := "overrides " + s.path + " of the configuration file"
	if v := s.in(c); v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
	}
	v := s.value(c)
	switch p := v.Addr().Interface().(type) {
	case *bool:
		fs.BoolVar(p, name, false, usage)
	case *int32:
		fs.Int32Var(p, name, 0, usage)
	case *int64:
		fs.Int64Var(p, name, 0, usage)
	case *float64:
		fs.Float64Var(p, name, 0, usage)
	case *metav1.Duration:
		fs.DurationVar(&p.Duration, name, 0, usage)
	case *logs.TimeOrMetaDuration:
		p.SerializeAsString = true
		fs.DurationVar(&p.Duration.Duration, name, 0, usage)
	case *[]string:
		fs.StringSliceVar(p, name, nil, usage)
	case *map[string]string:
		if s.path == "evictionHard" || s.path == "evictionSoft" {
			fs.Var(cliflag.NewLangleSeparatedMapStringString(p), name, usage)
		} else {
			fs.Var(cliflag.NewMapStringString(p), name, usage)
		}
	case *map[string]bool:
		fs.Var(cliflag.NewMapStringBool(p), name, usage)
	case *map[string][]string:
		fs.Var(headerValue{cliflag.NewColonSeparatedMultimapStringString(p)}, name, usage)
	case *[]v1.Taint:
		fs.Var(&taintsValue{p}, name, usage)
	case *[]kubelet.MemoryReservation:
		fs.Var(&reservedMemoryValue{p}, name, usage)
	case *logs.VerbosityLevel:
		fs.VarP(logs.VerbosityLevelPflag(p), name, name, usage)
	case *logs.VModuleConfiguration:
		fs.Var(logs.VModuleConfigurationPflag(p), name, usage)
	case pflag.Value:
		fs.Var(p, name, usage)
	default:
		text, is := v.Addr().Convert(reflect.TypeFor[*string]()).Interface().(*string)
		if !is {
			panic("config: no flag can set " + s.path)
		}
		fs.StringVar(text, name, "", usage)
	}
}

// defaults has the default of each setting that has one of its own. It is not to be changed.
var defaults = sync.OnceValue(func() kc {
	c, fs := &kubelet.KubeletConfiguration{}, pflag.NewFlagSet("defaults", pflag.ContinueOnError)
	for _, s := range settings {
		if s.usual == "" {
			continue
		}
		s.define(fs, s.path, c)
		if err := fs.Set(s.path, s.usual); err != nil {
			panic("config: default of " + s.path + ": " + err.Error())
		}
	}
	return c
})

// Default is what Load gives without flags and files.
func Default() Config {
	c := Config{options: defaultOptions(), origins: origins{}}
	setDefaults(&c.kubelet)
	c.kubelet.Kind, c.kubelet.APIVersion = configKind, configVersion
	return c
}

// setDefaults gives every field that was not given the default that its
// documentation names. Feature gates must be final: some defaults follow them.
func setDefaults(c kc) {
	follow(c, Gates{set: c.FeatureGates})
	usual := defaults().DeepCopy()
	for _, s := range settings {
		if v := s.in(c); s.usual != "" && v.IsZero() {
			v.Set(s.in(usual))
		}
	}
}

// follow sets the defaults that follow from other fields and from gates.
func follow(c kc, gates Gates) {
	if c.NodeStatusReportFrequency.Duration == 0 {
		// The report follows the update if only that was given: once there was one field for both.
		c.NodeStatusReportFrequency = c.NodeStatusUpdateFrequency
	}
	if c.SerializeImagePulls == nil { // one at a time, unless more were asked for
		c.SerializeImagePulls = ptr.To(ptr.Deref(c.MaxParallelImagePulls, 1) < 2)
	}
	if gates.on(pullGate) && c.ImagePullCredentialsVerificationPolicy == "" {
		c.ImagePullCredentialsVerificationPolicy = kubelet.NeverVerifyPreloadedImages
	}
	if back := &c.CrashLoopBackOff; gates.on("KubeletCrashLoopBackOffMax") && back.MaxContainerRestartPeriod == nil {
		back.MaxContainerRestartPeriod = &metav1.Duration{Duration: MaxCrashLoopBackOff}
	}
	if ptr.Deref(c.PodPidsLimit, -1) < 0 {
		c.PodPidsLimit = ptr.To[int64](-1)
	}
	if c.UserNamespaces != nil && c.UserNamespaces.IDsPerPod == nil {
		c.UserNamespaces.IDsPerPod = ptr.To(idsPerPod)
	}
	if c.EvictionHard != nil && ptr.Deref(c.MergeDefaultEvictionSettings, false) {
		merged := maps.Clone(defaults().EvictionHard)
		maps.Copy(merged, c.EvictionHard)
		c.EvictionHard = merged
	}
	if d := &c.Logging.FlushFrequency; d.Duration.Duration == 0 {
		d.Duration.Duration, d.SerializeAsString = 5*time.Second, true
	}
}

// rule is what a number, a duration or a text must be.
type rule struct {
	// least and most bound a number, or a duration in nanoseconds. Without most there is no upper bound.
	least, most int64
	// mended: a kubelet has no such rule. Below least the default is used, and the agent warns.
	mended bool
	// values are all that a text may be.
	values []string
}

var aboveZero, notNegative = &rule{least: 1, mended: true}, &rule{mended: true}

func atLeast[T int | time.Duration](n T) *rule { return &rule{least: int64(n)} }

func within[T int | time.Duration](least, most T) *rule {
	return &rule{least: int64(least), most: int64(most)}
}

func oneOf[T ~string](values ...T) *rule {
	r := &rule{}
	for _, v := range values {
		r.values = append(r.values, string(v))
	}
	return r
}

// number is what a rule bounds.
func number(v reflect.Value) int64 {
	switch d, is := v.Interface().(metav1.Duration); {
	case is:
		return int64(d.Duration)
	case v.CanUint():
		return int64(min(v.Uint(), math.MaxInt64))
	}
	return v.Int()
}

// shown is a number of a setting of that type as people see it.
func shown(n int64, t reflect.Type) any {
	if t == reflect.TypeFor[metav1.Duration]() {
		return time.Duration(n).String()
	}
	return n
}

// text says what a number of that type must be.
func (r *rule) text(t reflect.Type) string {
	if r.most == 0 {
		return fmt.Sprintf("at least %v", shown(r.least, t))
	}
	return fmt.Sprintf("from %v to %v", shown(r.least, t), shown(r.most, t))
}

// check says what is wrong with a value; nil for nothing.
func (r *rule) check(path *field.Path, v reflect.Value) *field.Error {
	if r.values != nil {
		if slices.Contains(r.values, v.String()) {
			return nil
		}
		return field.NotSupported(path, v.String(), r.values)
	}
	if n := number(v); n < r.least || r.most != 0 && n > r.most {
		return field.Invalid(path, shown(n, v.Type()), "must be "+r.text(v.Type()))
	}
	return nil
}

// rules checks the settings that have a rule.
func (v *validator) rules() {
	for _, s := range settings {
		is := s.value(v.KubeletConfiguration)
		if s.rule == nil || s.rule.mended || !is.IsValid() {
			continue
		}
		names := strings.Split(s.path, ".")
		if err := s.rule.check(at(names[0], names[1:]...), is); err != nil {
			v.add(err)
		}
	}
}
