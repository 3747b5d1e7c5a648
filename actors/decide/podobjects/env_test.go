package podobjects

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

func yes() *bool { b := true; return &b }

func mapKey(name, key string, optional *bool) *v1.EnvVarSource {
	return &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local(name), Key: key, Optional: optional}}
}

func secretKey(name, key string, optional *bool) *v1.EnvVarSource {
	return &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local(name), Key: key, Optional: optional}}
}

func envSet() Set {
	return NewSet([]Entry{
		{Ref: ref(ConfigMap, "m"), State: Found, Object: &v1.ConfigMap{Data: map[string]string{"b": "2", "a": "1"}}},
		{Ref: ref(Secret, "s"), State: Found, Object: &v1.Secret{Data: map[string][]byte{"p": []byte("x")}}},
		{Ref: ref(ConfigMap, "gone"), State: Missing},
		{Ref: ref(Secret, "gone"), State: Missing},
		{Ref: ref(ConfigMap, "denied"), State: Failed, Message: "configmaps \"denied\" is forbidden"},
	})
}

func TestEnvKeys(t *testing.T) {
	for _, c := range []struct {
		source *v1.EnvVarSource
		want   string
		state  State
	}{
		{mapKey("m", "a", nil), "", Found},
		{secretKey("s", "p", nil), "", Found},
		{mapKey("m", "z", nil), "couldn't find key z in ConfigMap shop/m", Failed},
		{mapKey("m", "z", yes()), "", Found},
		{secretKey("s", "z", nil), "couldn't find key z in Secret shop/s", Failed},
		{secretKey("s", "z", yes()), "", Found},
		{mapKey("gone", "a", nil), `configmap "gone" not found`, Missing},
		{mapKey("gone", "a", yes()), "", Found},
		{secretKey("gone", "a", nil), `secret "gone" not found`, Missing},
		{secretKey("gone", "a", yes()), "", Found},
		{mapKey("denied", "a", yes()), `configmaps "denied" is forbidden`, Failed},
		{secretKey("later", "a", yes()), "secret shop/later is not known yet", Unknown},
	} {
		var err error
		if r := c.source.ConfigMapKeyRef; r != nil {
			_, _, err = envSet().ConfigMapKey("shop", r)
		} else {
			_, _, err = envSet().SecretKey("shop", c.source.SecretKeyRef)
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want || StateOf(err) != c.state {
			t.Errorf("%+v: %q, %v; want %q, %v", c.source, got, StateOf(err), c.want, c.state)
		}
	}
}

func TestEnvFrom(t *testing.T) {
	for _, c := range []struct {
		from v1.EnvFromSource
		want []string
		err  string
	}{
		{v1.EnvFromSource{Prefix: "X_", ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("m")}}, []string{"X_a=1", "X_b=2"}, ""},
		{v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("s")}}, []string{"p=x"}, ""},
		{v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("gone")}}, nil, `secret "gone" not found`},
		{v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("gone"), Optional: yes()}}, nil, ""},
		{v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("gone"), Optional: yes()}}, nil, ""},
		{v1.EnvFromSource{}, nil, ""},
	} {
		vars, err := envSet().EnvFrom("shop", &c.from)
		var got []string
		for _, v := range vars {
			got = append(got, v.Name+"="+v.Value)
		}
		msg := ""
		if err != nil {
			msg = err.Error()
		}
		if !slices.Equal(got, c.want) || msg != c.err {
			t.Errorf("%+v: %v, %q; want %v, %q", c.from, got, msg, c.want, c.err)
		}
	}
	if _, err := Standalone().EnvFrom("shop", &v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("m"), Optional: yes()}}); err != nil {
		t.Errorf("an optional object is waited for on a node that has no apiserver: %v", err)
	}
}

func TestEnvKnown(t *testing.T) {
	named := []v1.EnvVar{{Name: "V", ValueFrom: mapKey("m", "a", nil)}, {Name: "W", ValueFrom: secretKey("gone", "a", nil)}}
	later := append(slices.Clone(named), v1.EnvVar{Name: "X", ValueFrom: mapKey("later", "a", yes())})
	all := NewSet(append(slices.Clone(envSet().Entries()), Entry{Ref: services, State: Found, Object: &ServiceList{}}))
	for _, c := range []struct {
		name, source string
		set          Set
		env          []v1.EnvVar
		want         bool
	}{
		{"nothing but services, not known", "api", Set{}, nil, false},
		{"services known", "api", all, nil, true},
		{"no services", "", Set{}.WithoutServices(), nil, true},
		{"standalone", "file", Standalone(), named, true},
		{"a static pod", "file", Set{}, nil, true},
		{"a static pod from a URL", "http", Set{}, nil, true},
		{"all known, one of them missing", "api", all, named, true},
		{"an optional one not known", "api", all, later, false},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Annotations: map[string]string{podspec.AnnotationSource: c.source}}}
		check.Equal(t, c.set.EnvKnown(pod, &v1.Container{Env: c.env}), c.want, "%s", c.name)
	}
}

func TestRenewAt(t *testing.T) {
	t0 := time.Unix(1e9, 0)
	for _, c := range []struct {
		life, asked time.Duration
		spread      float64
		want        time.Duration
	}{
		{time.Hour, 0, 0, 48 * time.Minute},
		{time.Hour, 0, 0.5, 48*time.Minute - 5*time.Second},
		{10 * time.Minute, 0, 1, 8*time.Minute - 10*time.Second},
		{365 * 24 * time.Hour, 0, 0, 24 * time.Hour},
		{30 * time.Hour, 0, 0, 24 * time.Hour},
		{29 * time.Hour, 0, 0, 23*time.Hour + 12*time.Minute},
		{5 * time.Second, 0, 1, 0},
		{time.Hour - time.Second, time.Hour, 0, (time.Hour - time.Second) * 4 / 5},
		{10 * time.Minute, time.Hour, 0, 8 * time.Minute},  // the apiserver gives less
		{49 * time.Hour, time.Hour, 0, 48 * time.Minute},   // its clock is two days ahead
		{100 * time.Hour, 100 * time.Hour, 0, maxTokenAge}, // a long one
	} {
		got := RenewAt(t0, t0.Add(c.life), c.asked, c.spread).Sub(t0)
		check.Equal(t, got, c.want, "life %v of %v, spread %v: after", c.life, c.asked, c.spread)
	}
	rapid.Check(t, func(t *rapid.T) {
		life := time.Duration(rapid.Int64Range(int64(10*time.Minute), int64(1e5*time.Hour)).Draw(t, "life"))
		got := RenewAt(t0, t0.Add(life), 0, rapid.Float64Range(0, 1).Draw(t, "spread")).Sub(t0)
		if got <= 0 || got > 24*time.Hour || got > life*4/5+1 {
			t.Fatalf("a token of %v is renewed after %v", life, got)
		}
	})
}

func TestFromTheFuture(t *testing.T) {
	t0 := time.Unix(1e9, 0)
	for _, c := range []struct {
		back time.Duration
		want bool
	}{{-time.Hour, false}, {0, false}, {time.Minute, false}, {61 * time.Second, true}, {48 * time.Hour, true}} {
		check.Equal(t, FromTheFuture(t0, t0.Add(-c.back)), c.want, "set back by %v", c.back)
	}
}
