package translate

import (
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

type objects struct {
	maps    map[string]map[string]string
	secrets map[string]map[string][]byte
}

func (o objects) ConfigMap(namespace, name string) (*v1.ConfigMap, bool, error) {
	if name == "broken" {
		return nil, false, errors.New("not synced yet")
	}
	data, ok := o.maps[namespace+"/"+name]
	return &v1.ConfigMap{Data: data}, ok, nil
}

func (o objects) Secret(namespace, name string) (*v1.Secret, bool, error) {
	data, ok := o.secrets[namespace+"/"+name]
	return &v1.Secret{Data: data}, ok, nil
}

func field(path string) *v1.EnvVarSource {
	return &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}
}

func quantity(container, name, divisor string) *v1.EnvVarSource {
	ref := &v1.ResourceFieldSelector{ContainerName: container, Resource: name}
	if divisor != "" {
		ref.Divisor = resource.MustParse(divisor)
	}
	return &v1.EnvVarSource{ResourceFieldRef: ref}
}

func mapKey(name, key string, optional *bool) *v1.EnvVarSource {
	return &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional,
	}}
}

func secretKey(name, key string, optional *bool) *v1.EnvVarSource {
	return &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional,
	}}
}

func fromMap(prefix, name string, optional *bool) v1.EnvFromSource {
	return v1.EnvFromSource{Prefix: prefix, ConfigMapRef: &v1.ConfigMapEnvSource{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Optional: optional,
	}}
}

func TestEnvironment(t *testing.T) {
	store := objects{
		maps:    map[string]map[string]string{"default/m": {"b": "2", "a": "1"}},
		secrets: map[string]map[string][]byte{"default/s": {"password": []byte("p$(A)")}},
	}
	value := func(name, v string) v1.EnvVar { return v1.EnvVar{Name: name, Value: v} }
	from := func(name string, s *v1.EnvVarSource) v1.EnvVar { return v1.EnvVar{Name: name, ValueFrom: s} }
	for _, tt := range []struct {
		name   string
		mutate func(*world)
		want   []string
	}{
		{"none", func(*world) {}, nil},
		{"in order, empty ones too", func(w *world) { w.app.Env = []v1.EnvVar{value("B", "2"), value("A", ""), value("C", "3")} },
			[]string{"B=2", "A=", "C=3"}},
		{"sees earlier ones", func(w *world) {
			w.app.Env = []v1.EnvVar{value("A", "$(B)"), value("B", "b"), value("C", "$(A)-$(B)-$$(B)")}
		}, []string{"A=$(B)", "B=b", "C=$(B)-b-$(B)"}},
		{"the last of a name counts", func(w *world) {
			w.app.Env = []v1.EnvVar{value("A", "1"), value("B", "$(A)"), value("A", "2")}
		}, []string{"A=2", "B=1"}},
		{"pod fields", func(w *world) {
			w.pod.Spec.ServiceAccountName = "sa"
			w.pod.Labels["x/y"] = "z"
			for _, f := range []string{
				"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels['x/y']", "metadata.labels['none']",
				"metadata.annotations['note']", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs",
				"status.podIP", "status.podIPs", "metadata.labels",
			} {
				w.app.Env = append(w.app.Env, from(f, field(f)))
			}
		}, []string{
			"metadata.name=web", "metadata.namespace=default", "metadata.uid=u1", "metadata.labels['x/y']=z", "metadata.labels['none']=",
			"metadata.annotations['note']=n", "spec.nodeName=node1", "spec.serviceAccountName=sa", "status.hostIP=192.0.2.1",
			"status.hostIPs=192.0.2.1,2001:db8::1", "status.podIP=10.0.0.5", "status.podIPs=10.0.0.5,fd00::5",
			"metadata.labels=app=\"web\"\nx/y=\"z\"",
		}},
		{"pod address on the host's network", func(w *world) {
			w.pod.Spec.HostNetwork, w.r.PodIPs = true, nil
			w.app.Env = []v1.EnvVar{from("IP", field("status.podIP"))}
		}, []string{"IP=192.0.2.1"}},
		{"resources", func(w *world) {
			w.app.Resources = v1.ResourceRequirements{Requests: list("cpu", "250m", "memory", "10Mi"), Limits: list("memory", "20Mi", "hugepages-2Mi", "4Mi")}
			w.pod.Spec.InitContainers = []v1.Container{{Name: "first", Resources: v1.ResourceRequirements{Limits: list("cpu", "1500m")}}}
			w.app.Env = []v1.EnvVar{
				from("A", quantity("", "requests.cpu", "")), from("B", quantity("", "requests.cpu", "1m")),
				from("C", quantity("", "limits.memory", "1Mi")), from("D", quantity("", "limits.memory", "3Mi")),
				from("E", quantity("", "limits.cpu", "")), from("F", quantity("first", "limits.cpu", "")),
				from("G", quantity("", "requests.ephemeral-storage", "")), from("H", quantity("", "limits.ephemeral-storage", "1k")),
				from("I", quantity("", "limits.hugepages-2Mi", "2Mi")), from("J", quantity("app", "requests.memory", "1")),
			}
		}, []string{"A=1", "B=250", "C=20", "D=7", "E=2", "F=2", "G=0", "H=5", "I=2", "J=10485760"}},
		{"limits of the pod as a whole", func(w *world) {
			w.pod.Spec.Resources = &v1.ResourceRequirements{Limits: list("memory", "500")}
			w.app.Env = []v1.EnvVar{from("A", quantity("", "limits.memory", ""))}
		}, []string{"A=500"}},
		{"objects", func(w *world) {
			w.node.Objects = store
			w.app.EnvFrom = []v1.EnvFromSource{fromMap("X_", "m", nil), fromMap("", "none", ptr(true))}
			w.app.Env = []v1.EnvVar{
				value("X_b", "$(X_a)!"), from("M", mapKey("m", "a", nil)), from("S", secretKey("s", "password", nil)),
				from("O1", mapKey("m", "none", ptr(true))), from("O2", secretKey("none", "x", ptr(true))),
			}
		}, []string{"X_a=1", "X_b=1!", "M=1", "S=p$(A)"}},
		{"optional ones standalone", func(w *world) {
			w.app.EnvFrom = []v1.EnvFromSource{fromMap("", "none", ptr(true))}
			w.app.Env = []v1.EnvVar{from("O1", mapKey("m", "a", ptr(true))), from("O2", secretKey("s", "x", ptr(true))), value("A", "1")}
		}, []string{"A=1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.mutate(w)
			var got []string
			for _, kv := range w.container(t).Envs {
				got = append(got, kv.Key+"="+string(kv.Value))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("\n got %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestEnvironmentThatCannotBe(t *testing.T) {
	store := objects{maps: map[string]map[string]string{"default/m": {}}, secrets: map[string]map[string][]byte{"default/s": {}}}
	for _, tt := range []struct {
		source *v1.EnvVarSource
		mutate func(*world)
		want   string
	}{
		{mapKey("m", "k", nil), func(w *world) { w.node.Objects = nil }, "env V: key k: configmap default/m is not available"},
		{secretKey("s", "k", nil), func(w *world) { w.node.Objects = nil }, "env V: key k: secret default/s is not available"},
		{mapKey("none", "k", nil), nil, `configmap "none" not found`},
		{mapKey("m", "k", nil), nil, "couldn't find key k in ConfigMap default/m"},
		{mapKey("broken", "k", ptr(true)), nil, "configmap default/broken: not synced yet"},
		{secretKey("none", "k", nil), nil, `secret "none" not found`},
		{secretKey("s", "k", nil), nil, "couldn't find key k in Secret default/s"},
		{field("status.phase"), nil, "env V: unsupported fieldPath: status.phase"},
		{field("metadata.name['x']"), nil, `fieldPath "metadata.name['x']" does not take a key`},
		{field("status.podIP"), func(w *world) { w.r.PodIPs = nil }, "status.podIP is not known yet"},
		{quantity("none", "limits.cpu", ""), nil, "container none not found"},
		{quantity("", "limits.gpu", ""), nil, "unsupported container resource: limits.gpu"},
		{quantity("", "memory", ""), nil, "unsupported container resource: memory"},
		{quantity("", "limits.cpu", "-1"), nil, "can't divide"},
		{&v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{Key: "k", VolumeName: "v"}}, nil, "fileKeyRef k of volume v is not supported"},
	} {
		w := newWorld()
		w.node.Objects = store
		w.app.Env = []v1.EnvVar{{Name: "V", ValueFrom: tt.source}}
		if tt.mutate != nil {
			tt.mutate(w)
		}
		_, err := Container(w.node, w.r)
		wantInvalid(t, err, tt.want)
	}
	w := newWorld()
	w.app.EnvFrom = []v1.EnvFromSource{fromMap("", "m", nil)}
	_, err := Container(w.node, w.r)
	wantInvalid(t, err, "CreateContainer default/web/app: invalid configuration: envFrom: configmap default/m is not available")
}
