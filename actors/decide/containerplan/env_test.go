package containerplan

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

// envWorld is the base that each case of a table changes.
type envWorld struct {
	pod     *v1.Pod
	app     *v1.Container // the first container of pod
	from    podspec.Downward
	objects podobjects.Set
}

func newEnvWorld() *envWorld {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "u1",
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "n"},
		},
		Spec: v1.PodSpec{NodeName: "node1", Containers: []v1.Container{{Name: "app", Image: "r.io/app:1"}}},
	}
	return &envWorld{pod: pod, app: &pod.Spec.Containers[0], from: podspec.Downward{
		Pod: pod, PodIPs: []string{"10.0.0.5", "fd00::5"}, HostIPs: []string{"192.0.2.1", "2001:db8::1"},
		Allocatable: list("cpu", "2", "memory", "900", "ephemeral-storage", "5000"),
	}}
}

// env is the container's environment, as name=value.
func (w *envWorld) env() ([]string, error) {
	e, err := EnvironmentOf(&w.from, w.objects, nil, w.app, &Expansion{Left: MaxExpanded})
	var out []string
	for _, name := range e.Names() {
		v, _ := e.Lookup(name)
		out = append(out, name+"="+v)
	}
	return out, err
}

func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// objects are a ConfigMap m, a Secret s, and none of the names none; broken can't
// be had. There are three services.
func objects() podobjects.Set {
	entry := func(k podobjects.Kind, name string, state podobjects.State, o any) podobjects.Entry {
		e := podobjects.Entry{Ref: podobjects.Ref{Kind: k, Namespace: "default", Name: name}, State: state, Object: o}
		if state == podobjects.Failed {
			e.Message = "configmaps \"broken\" is forbidden"
		}
		return e
	}
	return podobjects.NewSet([]podobjects.Entry{
		entry(podobjects.ConfigMap, "m", podobjects.Found, &v1.ConfigMap{Data: map[string]string{"b": "2", "a": "1"}}),
		entry(podobjects.Secret, "s", podobjects.Found, &v1.Secret{Data: map[string][]byte{"password": []byte("p$(A)")}}),
		entry(podobjects.ConfigMap, "none", podobjects.Missing, nil),
		entry(podobjects.Secret, "none", podobjects.Missing, nil),
		entry(podobjects.ConfigMap, "broken", podobjects.Failed, nil),
		entry(podobjects.Services, "", podobjects.Found, &podobjects.ServiceList{}),
	})
}

// withServices are the services that pods of a namespace are told of.
func withServices(namespace string, list ...*v1.Service) podobjects.Set {
	return podobjects.NewSet([]podobjects.Entry{{
		Ref: podobjects.Ref{Kind: podobjects.Services, Namespace: namespace}, State: podobjects.Found, Object: &podobjects.ServiceList{Items: list},
	}})
}

func service(namespace, name, address string, ports ...v1.ServicePort) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.ServiceSpec{ClusterIP: address, Ports: ports}}
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
	value := func(name, v string) v1.EnvVar { return v1.EnvVar{Name: name, Value: v} }
	from := func(name string, s *v1.EnvVarSource) v1.EnvVar { return v1.EnvVar{Name: name, ValueFrom: s} }
	for _, tt := range []struct {
		name   string
		mutate func(*envWorld)
		want   []string
	}{
		{"none", func(*envWorld) {}, nil},
		{"in order, empty ones too", func(w *envWorld) { w.app.Env = []v1.EnvVar{value("B", "2"), value("A", ""), value("C", "3")} },
			[]string{"B=2", "A=", "C=3"}},
		{"sees earlier ones", func(w *envWorld) {
			w.app.Env = []v1.EnvVar{value("A", "$(B)"), value("B", "b"), value("C", "$(A)-$(B)-$$(B)")}
		}, []string{"A=$(B)", "B=b", "C=$(B)-b-$(B)"}},
		{"the last of a name counts", func(w *envWorld) {
			w.app.Env = []v1.EnvVar{value("A", "1"), value("B", "$(A)"), value("A", "2")}
		}, []string{"A=2", "B=1"}},
		{"pod fields", func(w *envWorld) {
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
		{"pod address on the host's network", func(w *envWorld) {
			w.pod.Spec.HostNetwork, w.from.PodIPs = true, nil
			w.app.Env = []v1.EnvVar{from("IP", field("status.podIP"))}
		}, []string{"IP=192.0.2.1"}},
		{"resources", func(w *envWorld) {
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
		{"limits of the pod as a whole", func(w *envWorld) {
			w.pod.Spec.Resources = &v1.ResourceRequirements{Limits: list("memory", "500")}
			w.app.Env = []v1.EnvVar{from("A", quantity("", "limits.memory", ""))}
		}, []string{"A=500"}},
		{"objects", func(w *envWorld) {
			w.objects = objects()
			w.app.EnvFrom = []v1.EnvFromSource{fromMap("X_", "m", nil), fromMap("", "none", new(true))}
			w.app.Env = []v1.EnvVar{
				value("X_b", "$(X_a)!"), from("M", mapKey("m", "a", nil)), from("S", secretKey("s", "password", nil)),
				from("O1", mapKey("m", "none", new(true))), from("O2", secretKey("none", "x", new(true))),
			}
		}, []string{"X_a=1", "X_b=1!", "M=1", "S=p$(A)"}},
		{"optional ones standalone", func(w *envWorld) {
			w.objects = podobjects.Standalone()
			w.app.EnvFrom = []v1.EnvFromSource{fromMap("", "none", new(true))}
			w.app.Env = []v1.EnvVar{from("O1", mapKey("m", "a", new(true))), from("O2", secretKey("s", "x", new(true))), value("A", "1")}
		}, []string{"A=1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newEnvWorld()
			tt.mutate(w)
			check.Same(t, check.Value(w.env())(t), tt.want, "\n got")
		})
	}
}

func TestEnvironmentThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		source *v1.EnvVarSource
		mutate func(*envWorld)
		want   string
	}{
		{mapKey("m", "k", nil), func(w *envWorld) { w.objects = podobjects.Standalone() }, "configmap default/m is not available"},
		{secretKey("s", "k", nil), func(w *envWorld) { w.objects = podobjects.Standalone() }, "secret default/s is not available"},
		{mapKey("none", "k", nil), nil, `configmap "none" not found`},
		{mapKey("m", "k", nil), nil, "couldn't find key k in ConfigMap default/m"},
		{mapKey("broken", "k", new(true)), nil, `configmaps "broken" is forbidden`},
		{secretKey("none", "k", nil), nil, `secret "none" not found`},
		{secretKey("s", "k", nil), nil, "couldn't find key k in Secret default/s"},
		{field("status.phase"), nil, "env V: unsupported fieldPath: status.phase"},
		{field("metadata.name['x']"), nil, `fieldPath "metadata.name['x']" does not take a key`},
		{field("status.podIP"), func(w *envWorld) { w.from.PodIPs = nil }, "status.podIP is not known yet"},
		{quantity("none", "limits.cpu", ""), nil, "container none not found"},
		{quantity("", "limits.gpu", ""), nil, "unsupported container resource: limits.gpu"},
		{quantity("", "memory", ""), nil, "unsupported container resource: memory"},
		{quantity("", "limits.cpu", "-1"), nil, "can't divide"},
		{&v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{Key: "k", VolumeName: "v", Path: "f"}}, nil, `env V: couldn't parse env file: there is no f in volume "v"`},
	} {
		w := newEnvWorld()
		w.objects = objects()
		w.app.Env = []v1.EnvVar{{Name: "V", ValueFrom: tt.source}}
		if tt.mutate != nil {
			tt.mutate(w)
		}
		check.Says(t, check.Err(w.env()), tt.want, "error")
	}
	w := newEnvWorld()
	w.objects = podobjects.NewSet([]podobjects.Entry{{
		Ref:   podobjects.Ref{Kind: podobjects.Services, Namespace: "default"},
		State: podobjects.Failed, Message: "services is forbidden",
	}})
	const unread = "services have not yet been read at least once, cannot construct envvars: "
	if _, err := w.env(); err == nil || !strings.HasPrefix(err.Error(), unread) || !strings.Contains(err.Error(), "forbidden") {
		t.Error(err)
	}
	w.pod.Annotations["kubernetes.io/config.source"] = "file"
	if env, err := w.env(); err != nil || len(env) > 0 { // the apiserver may need it
		t.Error(env, err)
	}
	w = newEnvWorld()
	w.objects = podobjects.Standalone()
	w.app.EnvFrom = []v1.EnvFromSource{fromMap("", "m", nil)}
	if _, err := w.env(); err == nil || !strings.HasPrefix(err.Error(), "configmap default/m is not available") {
		t.Error(err)
	}
}

// TestEnvironmentThatGrows: a few variables would make more than any machine has. What a later one replaces does not count.
func TestEnvironmentThatGrows(t *testing.T) {
	w := newEnvWorld()
	w.app.Env = []v1.EnvVar{{Name: "A0", Value: "0123456789abcdef"}}
	for n := range 8 {
		w.app.Env = append(w.app.Env, v1.EnvVar{
			Name: "A" + strconv.Itoa(n+1), Value: strings.Repeat("$(A"+strconv.Itoa(n)+")", 16),
		})
	}
	_, err := w.env()
	check.Equal(t, err.Error(), "env A5: "+ErrTooLong.Error(), "A5 has 16 MiB")
	w.app.Env = append(w.app.Env[:5], v1.EnvVar{Name: "A4", Value: "small"})
	for range 40 {
		w.app.Env = append(w.app.Env, v1.EnvVar{Name: "B", Value: "$(A3)$(A3)"})
	}
	if _, err = w.env(); err != nil {
		t.Error(err)
	}
	for n := range 20_000 {
		w.app.Env = append(w.app.Env, v1.EnvVar{Name: "C", Value: strings.Repeat("$(A3)", 1+n%2)})
	}
	if _, err = w.env(); !errors.Is(err, ErrTooLong) {
		t.Errorf("20,000 variables of 64 KiB and more that replace each other: %v", err)
	}
}

func TestServiceVariables(t *testing.T) {
	http := v1.ServicePort{Name: "http-alt", Port: 8080}
	dns := v1.ServicePort{Protocol: v1.ProtocolUDP, Port: 53}
	kubernetes := service("default", "kubernetes", "10.0.0.1", v1.ServicePort{Name: "https", Port: 443, Protocol: v1.ProtocolTCP})
	ofKubernetes := []string{
		"KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_SERVICE_PORT_HTTPS=443",
		"KUBERNETES_PORT=tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP=tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP_PROTO=tcp",
		"KUBERNETES_PORT_443_TCP_PORT=443", "KUBERNETES_PORT_443_TCP_ADDR=10.0.0.1",
	}
	for _, tt := range []struct {
		name     string
		services []*v1.Service
		mutate   func(*envWorld)
		want     []string
	}{
		{"kubernetes, whatever the pod says", []*v1.Service{kubernetes, service("shop", "db", "10.0.0.2", http)},
			func(w *envWorld) { w.pod.Spec.EnableServiceLinks = new(false) }, ofKubernetes},
		{"one of the pod's namespace named kubernetes", []*v1.Service{service("a", "kubernetes", "10.0.0.9", dns), kubernetes},
			func(w *envWorld) {
				w.pod.Namespace = "a"
				w.objects = withServices("a", service("a", "kubernetes", "10.0.0.9", dns), kubernetes)
			},
			[]string{"KUBERNETES_SERVICE_HOST=10.0.0.9", "KUBERNETES_SERVICE_PORT=53", "KUBERNETES_PORT=udp://10.0.0.9:53",
				"KUBERNETES_PORT_53_UDP=udp://10.0.0.9:53", "KUBERNETES_PORT_53_UDP_PROTO=udp", "KUBERNETES_PORT_53_UDP_PORT=53", "KUBERNETES_PORT_53_UDP_ADDR=10.0.0.9"}},
		{"headless, external, of another namespace", []*v1.Service{
			service("shop", "none", v1.ClusterIPNone, http), service("shop", "ext", "", http), service("other", "db", "10.0.0.2", http),
		}, func(*envWorld) {}, nil},
		{"several ports, and an IPv6 address", []*v1.Service{service("shop", "my-db", "fd00::1", dns, http)}, func(*envWorld) {}, []string{
			"MY_DB_SERVICE_HOST=fd00::1", "MY_DB_SERVICE_PORT=53", "MY_DB_SERVICE_PORT_HTTP_ALT=8080", "MY_DB_PORT=udp://[fd00::1]:53",
			"MY_DB_PORT_53_UDP=udp://[fd00::1]:53", "MY_DB_PORT_53_UDP_PROTO=udp", "MY_DB_PORT_53_UDP_PORT=53", "MY_DB_PORT_53_UDP_ADDR=fd00::1",
			"MY_DB_PORT_8080_TCP=tcp://[fd00::1]:8080", "MY_DB_PORT_8080_TCP_PROTO=tcp", "MY_DB_PORT_8080_TCP_PORT=8080", "MY_DB_PORT_8080_TCP_ADDR=fd00::1",
		}},
		{"the container's own come first, and see them", []*v1.Service{service("shop", "a", "10.0.0.2", dns)}, func(w *envWorld) {
			w.app.Env = []v1.EnvVar{{Name: "URL", Value: "$(A_SERVICE_HOST):$(A_SERVICE_PORT)"}, {Name: "A_SERVICE_PORT", Value: "1"}}
		}, []string{
			"URL=10.0.0.2:53", "A_SERVICE_PORT=1", "A_SERVICE_HOST=10.0.0.2", "A_PORT=udp://10.0.0.2:53", "A_PORT_53_UDP=udp://10.0.0.2:53",
			"A_PORT_53_UDP_PROTO=udp", "A_PORT_53_UDP_PORT=53", "A_PORT_53_UDP_ADDR=10.0.0.2",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newEnvWorld()
			w.pod.Namespace = "shop"
			w.objects = withServices("shop", tt.services...)
			tt.mutate(w)
			check.Same(t, check.Value(w.env())(t), tt.want, "\n got")
		})
	}
}
