package differ

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// environmentFeatures are variables.
var environmentFeatures = []feature{
	{"env", 20, func(d *draft) {
		d.env(v1.EnvVar{Name: "PLAIN", Value: " spaces  and\ttabs\nlines "}, v1.EnvVar{Name: "EMPTY"}, v1.EnvVar{Name: "dotted.name-x", Value: "y"})
	}},
	{"env-service", 5, func(d *draft) {
		d.env(v1.EnvVar{Name: "WEB_SERVICE_HOST", Value: "mine"}, v1.EnvVar{Name: "KUBERNETES_PORT", Value: ""})
	}},
	{"env-path", 5, func(d *draft) {
		d.env(v1.EnvVar{Name: "PATH", Value: "/bin:/"}, v1.EnvVar{Name: "HOSTNAME", Value: "h"})
	}},
	{"env-field", 20, func(d *draft) {
		d.env(one(d,
			[]v1.EnvVar{field("A_NAME", "metadata.name"), field("A_SPACE", "metadata.namespace"), field("A_UID", "metadata.uid")},
			[]v1.EnvVar{field("A_NODE", "spec.nodeName"), field("AN_ACCOUNT", "spec.serviceAccountName"), field("A_HOST", "status.hostIP")},
			[]v1.EnvVar{field("AN_IP", "status.podIP"), field("IPS", "status.podIPs"), field("HOST_IPS", "status.hostIPs")},
			[]v1.EnvVar{field("A_LABEL", "metadata.labels['app']"), field("A_NOTE", "metadata.annotations['note']"), field("NONE", "metadata.labels['none']")},
		)...)
	}},
	{"env-resource", 12, func(d *draft) {
		c := d.pick()
		c.Env = append(c.Env, amountOf("LIMIT_CPU", "limits.cpu", "", "1m"), amountOf("REQUEST_MEMORY", "requests.memory", "", "1Mi"),
			amountOf("LIMIT_MEMORY", "limits.memory", "main", "1"), amountOf("REQUEST_CPU", "requests.cpu", "main", "0"))
	}},
	{"env-config", 15, func(d *draft) {
		d.env(keyOf("FROM_CONFIG", "cm", "plain", false), keyOf("FROM_NONE", "cm", "none", true), keyOf("FROM_NOWHERE", "nowhere", "x", true))
	}},
	{"env-secret", 12, func(d *draft) {
		d.env(secretKey("FROM_SECRET", "sec", "user", false), secretKey("FROM_NONE_S", "sec", "none", true))
	}},
	{"env-missing", 3, func(d *draft) {
		d.env(one(d, keyOf("BROKEN", "nowhere", "x", false), keyOf("BROKEN", "cm", "none", false), secretKey("BROKEN", "nowhere", "x", false)))
	}},
	{"env-from", 15, func(d *draft) {
		c := d.pick()
		c.EnvFrom = append(c.EnvFrom,
			v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: named("cm")}},
			v1.EnvFromSource{Prefix: one(d, "", "S_", "1-"), SecretRef: &v1.SecretEnvSource{LocalObjectReference: named("sec")}},
			v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: named("nowhere"), Optional: new(true)}})
	}},
	{"env-from-missing", 2, func(d *draft) {
		c := d.pick()
		c.EnvFrom = append(c.EnvFrom, v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: named("nowhere")}})
	}},
	{"env-order", 8, func(d *draft) {
		c := d.pick()
		c.Env = append(c.Env, keyOf("LATE", "cm", "plain", false), v1.EnvVar{Name: "USES", Value: "$(LATE)-$(plain)-$(WEB_PORT)-$(user)"})
	}},
}

func (d *draft) env(vars ...v1.EnvVar) {
	c := d.pick()
	c.Env = append(c.Env, vars...)
}

func named(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

func field(name, path string) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}}
}

func amountOf(name, of, container, divisor string) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{ResourceFieldRef: selector(of, container, divisor)}}
}

func selector(of, container, divisor string) *v1.ResourceFieldSelector {
	return &v1.ResourceFieldSelector{Resource: of, ContainerName: container, Divisor: resource.MustParse(divisor)}
}

func keyOf(name, of, key string, optional bool) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{
		ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: named(of), Key: key, Optional: &optional},
	}}
}

func secretKey(name, of, key string, optional bool) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{
		SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: named(of), Key: key, Optional: &optional},
	}}
}
