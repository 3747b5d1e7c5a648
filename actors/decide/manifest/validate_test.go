package manifest

import (
	"slices"
	"strings"
	"testing"
)

// TestValidate changes one thing of a good manifest and looks for the problem
// that names it; an empty want is a manifest that is still good.
func TestValidate(t *testing.T) {
	type list = []any
	type m = map[string]any
	const c0, v0, i0 = "spec.containers.0.", "spec.volumes.0.", "spec.initContainers.0."
	labels := func(path string) m { return m{"path": path, "fieldRef": m{"fieldPath": "metadata.labels"}} }
	cpu := func(of string) m {
		return m{"path": "a", "resourceFieldRef": m{"containerName": of, "resource": "limits.cpu"}}
	}
	cases := []struct {
		path  string
		value any
		want  string
	}{
		{"kind", "Deployment", `kind: "Deployment": only v1 Pod can run from a manifest`},
		{"kind", nil, "kind: must be given"},
		{"apiVersion", "v2", `apiVersion: "v2": must be v1`},
		{"apiVersion", nil, "apiVersion: must be given: v1"},

		{"metadata.name", nil, "metadata.name: must be given"},
		{"metadata.name", "Web_1", `metadata.name: "Web_1-node-a": with the appended node name: a lowercase RFC 1123 subdomain`},
		{"metadata.name", "web-", ""}, // with that of the node it is one
		{"metadata.name", strings.Repeat("a", 250), "metadata.name"},
		{"metadata.generateName", "web-", ""},
		{"metadata.namespace", "a.b", `metadata.namespace: "a.b"`},
		{"metadata.namespace", "kube-system", ""},
		{"metadata.uid", "../../etc", `metadata.uid: "../../etc"`},
		{"metadata.labels", m{"a b": "c"}, "metadata.labels[a b]"},
		{"metadata.labels", m{"a": "c d"}, `metadata.labels[a]: "c d"`},
		{"metadata.annotations", m{"kubernetes.io/config.mirror": "x"}, "copy of a mirror pod"},
		{"metadata.annotations", m{"a": strings.Repeat("x", 300<<10)}, "at most 262144"},
		{"metadata.deletionTimestamp", "2026-01-01T00:00:00Z", "metadata.deletionTimestamp: remove the manifest"},
		{"metadata.creationTimestamp", "then", "metadata.creationTimestamp: \"then\": must be a time"},
		{"metadata.ownerReferences", list{m{"kind": "A", "name": "b", "uid": "c", "apiVersion": "v1"}}, ""}, // the mirror pod has its own
		{"status", m{"phase": "Failed"}, ""},

		{"spec.containers", list{}, "spec.containers: must be given"},
		{"spec.ephemeralContainers", list{m{"name": "e", "image": "e"}}, "spec.ephemeralContainers"},
		{"spec.restartPolicy", "Sometimes", `spec.restartPolicy: "Sometimes": supported values: "Always", "OnFailure", "Never"`},
		{"spec.dnsPolicy", "Mine", "spec.dnsPolicy"},
		{"spec.dnsPolicy", "None", "spec.dnsConfig.nameservers: must be given"},
		{"spec.dnsConfig", m{"nameservers": list{"1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"}}, "spec.dnsConfig.nameservers"},
		{"spec.dnsConfig", m{"nameservers": list{"dns"}}, `spec.dnsConfig.nameservers[0]: "dns": must be an IP address`},
		{"spec.dnsConfig", m{"searches": list{"_tcp.example.com."}}, ""},
		{"spec.dnsConfig", m{"searches": list{"a b"}}, "spec.dnsConfig.searches[0]"},
		{"spec.dnsConfig", m{"options": list{m{"value": "1"}}}, "spec.dnsConfig.options[0].name: must be given"},
		{"spec.terminationGracePeriodSeconds", -1, ""},
		{"spec.terminationGracePeriodSeconds", 0, ""},
		{"spec.activeDeadlineSeconds", 0, "spec.activeDeadlineSeconds: 0: must be from 1"},
		{"spec.hostname", "A", "spec.hostname"},
		{"spec.os", m{"name": "windows"}, ""},
		{"spec.os", m{"name": "plan9"}, "spec.os.name"},
		{"spec.hostAliases", list{m{"ip": "nope", "hostnames": list{"a"}}}, `spec.hostAliases[0].ip: "nope"`},
		{"spec.hostAliases", list{m{"ip": "1.2.3.4", "hostnames": list{"a_b"}}}, "spec.hostAliases[0].hostnames[0]"},
		{"spec.priorityClassName", "system-node-critical", ""},
		{"spec", m{"priorityClassName": "system-node-critical", "priority": 5, "containers": list{m{"name": "a", "image": "a"}}}, ""},
		{"spec.tolerations", list{m{"key": "a", "operator": "Exists", "value": "x"}}, "spec.tolerations[0].value"},
		{"spec.tolerations", list{m{"operator": "Exists"}}, ""},
		{"spec.tolerations", list{m{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}}, "spec.tolerations[0].effect"},

		{c0 + "name", "", "spec.containers[0].name: must be given"},
		{c0 + "name", "prepare", `spec.containers[0].name: "prepare": given twice`},
		{c0 + "name", "Web", "spec.containers[0].name"},
		{c0 + "image", "", "spec.containers[0].image: must be given"},
		{c0 + "image", nil, "spec.containers[0].image: must be given"},
		{c0 + "image", " web:1", "must not begin or end with white space"},
		{c0 + "image", "web :1", ""}, // the container is InvalidImageName, and others of the pod run
		{c0 + "image", "Web/UP:1", ""},
		{c0 + "image", "web@sha256:12", ""},
		{c0 + "image", "web:", ""},
		{c0 + "image", "[fd00::1]:5000/web:1", ""},
		{c0 + "imagePullPolicy", "Sometimes", "spec.containers[0].imagePullPolicy"},
		{c0 + "terminationMessagePath", "log", ""},
		{c0 + "ports.0.containerPort", 70000, "spec.containers[0].ports[0].containerPort: 70000: must be from 1 to 65535"},
		{c0 + "ports.0.containerPort", nil, "spec.containers[0].ports[0].containerPort: must be given"},
		{c0 + "ports.0.hostPort", -1, "spec.containers[0].ports[0].hostPort"},
		{c0 + "ports.0.name", "NOT_ok", "spec.containers[0].ports[0].name"},
		{c0 + "ports.0.protocol", "ICMP", "spec.containers[0].ports[0].protocol"},
		{c0 + "ports", list{m{"name": "a", "containerPort": 1}, m{"name": "a", "containerPort": 2}}, `spec.containers[0].ports[1].name: "a": given twice`},
		{c0 + "ports", list{m{"containerPort": 1, "hostPort": 9}, m{"containerPort": 2, "hostPort": 9}}, `ports[1].hostPort: "9/TCP": given twice`},
		{c0 + "ports", list{m{"containerPort": 1, "hostPort": 9}, m{"containerPort": 2, "hostPort": 9, "protocol": "UDP"}}, ""},
		{c0 + "ports", list{m{"containerPort": 1, "hostPort": 9, "hostIP": "localhost"}}, ""},
		{c0 + "env.0.name", "", "spec.containers[0].env[0].name: must be given"},
		{c0 + "env.0.name", "A=B", "spec.containers[0].env[0].name"},
		{c0 + "env.0.name", "a.b-c", ""},
		{c0 + "env.0", m{"name": "A", "valueFrom": m{}}, "must have exactly one"},
		{c0 + "env.0", m{"name": "A", "value": "b", "valueFrom": m{"fieldRef": m{"fieldPath": "metadata.name"}}}, "cannot be given together with value"},
		{c0 + "env.0", m{"name": "A", "valueFrom": m{"fieldRef": m{"fieldPath": "metadata.labels['app']"}}}, ""},
		{c0 + "env.0", m{"name": "A", "valueFrom": m{"fieldRef": m{"fieldPath": "spec.host"}}}, ""},
		{c0 + "env.0", m{"name": "A", "valueFrom": m{"fieldRef": m{"fieldPath": "spec.image"}}}, "fieldRef.fieldPath"},
		{c0 + "env.0", m{"name": "A", "valueFrom": m{"resourceFieldRef": m{"containerName": "none", "resource": "limits.cpu"}}}, ""},
		{c0 + "env.0", m{"name": "A", "valueFrom": m{"fileKeyRef": m{"volumeName": "scratch", "path": "/env", "key": "A"}}}, ""},
		{c0 + "env.0", m{"name": "A", "valueFrom": m{"fileKeyRef": m{"volumeName": "scratch", "path": "../env", "key": "A"}}}, "must not contain '..'"},
		{c0 + "env.0", m{"name": "A", "valueFrom": m{"resourceFieldRef": m{"resource": "limits.cpu", "divisor": "1m"}}}, ""},
		{c0 + "env.0", m{"name": "A", "valueFrom": m{"resourceFieldRef": m{"resource": "cpu"}}}, "resourceFieldRef.resource"},
		{c0 + "volumeMounts.0.name", "none", `spec.containers[0].volumeMounts[0].name: "none": not found`},
		{c0 + "volumeMounts.0.mountPath", "data/dir", ""},
		{c0 + "volumeMounts.0.mountPath", "/etc/docker/certs.d/host:5000", ""},
		{c0 + "volumeMounts.0.subPath", "a/../../b", `subPath: "a/../../b": must not contain '..'`},
		{c0 + "volumeMounts.0.subPath", "/a", "must be relative"},
		{c0 + "volumeMounts.0.mountPropagation", "Bidirectional", "needs securityContext.privileged"},
		{c0 + "volumeMounts.0.recursiveReadOnly", "Enabled", "needs readOnly: true"},
		{c0 + "volumeMounts", list{m{"name": "scratch", "mountPath": "/a"}, m{"name": "host", "mountPath": "/a"}}, "volumeMounts[1].mountPath: \"/a\": given twice"},
		{c0 + "volumeMounts", list{m{"name": "scratch", "mountPath": "/a"}, m{"name": "host", "mountPath": "/a/"}}, ""},
		{c0 + "resources", m{"limits": m{"cpu": 1}, "requests": m{"cpu": 2}}, `spec.containers[0].resources.requests[cpu]: "2": is more than the limit of 1`},
		{c0 + "resources", m{"requests": m{"memory": "-1"}}, "must be at least 0"},
		{c0 + "resources", m{"requests": m{"memoryy": "1"}}, "requests[memoryy]"},
		{c0 + "resources", m{"requests": m{"hugepages-2Mi": "4Mi"}}, "must be equal to its limit"},
		{c0 + "resources", m{"limits": m{"example.com/gpu": "1"}}, ""},
		{c0 + "resources", m{"requests": m{"example.com/gpu": "1"}}, "must be equal to its limit"},
		{c0 + "resources", m{"limits": m{"example.com/gpu": "1.5"}}, "must be a whole number"},
		{c0 + "resources", m{"requests": m{"storage.kubernetes.io/part": "1.5"}}, ""}, // Kubernetes' own, for every domain of its
		{c0 + "restartPolicy", "Never", ""},
		{c0 + "restartPolicyRules", list{m{"action": "Restart", "exitCodes": m{"operator": "In", "values": list{1}}}}, "spec.containers[0].restartPolicy: must be given"},
		{i0 + "restartPolicy", "Bogus", "spec.initContainers[0].restartPolicy"},
		{i0 + "livenessProbe", m{"exec": m{"command": list{"x"}}}, "spec.initContainers[0].livenessProbe: an init container may have it only"},
		{"spec.initContainers.1.readinessProbe", m{"exec": m{"command": list{"x"}}}, ""},
		{c0 + "livenessProbe", m{}, "livenessProbe: must be given: one of exec"},
		{c0 + "livenessProbe", m{"tcpSocket": m{"port": 1}, "exec": m{"command": list{"x"}}}, "must have exactly one of exec"},
		{c0 + "livenessProbe", m{"exec": m{}}, "livenessProbe.exec.command: must be given"},
		{c0 + "livenessProbe.httpGet.port", 0, "livenessProbe.httpGet.port"},
		{c0 + "livenessProbe.httpGet.scheme", "FTP", "livenessProbe.httpGet.scheme"},
		{c0 + "livenessProbe.periodSeconds", -5, "livenessProbe.periodSeconds: -5: must be at least 1"},
		{c0 + "livenessProbe.successThreshold", 2, "must be 1 for a liveness"},
		{c0 + "readinessProbe", m{"grpc": m{"port": 99999}}, "readinessProbe.grpc.port"},
		{c0 + "readinessProbe", m{"grpc": m{"port": 9}, "terminationGracePeriodSeconds": 5}, "a failed readiness probe stops no container"},
		{c0 + "lifecycle", m{"preStop": m{}}, "spec.containers[0].lifecycle.preStop: must be given"},
		{c0 + "lifecycle", m{"preStop": m{"sleep": m{"seconds": 31}}}, "preStop.sleep.seconds: 31: must be from 0 to 30"},
		{c0 + "lifecycle", m{"preStop": m{"sleep": m{"seconds": 30}}}, ""},
		{c0 + "securityContext", m{"runAsUser": -1}, "spec.containers[0].securityContext.runAsUser: -1"},
		{c0 + "securityContext", m{"seccompProfile": m{"type": "Localhost"}}, "localhostProfile: must be given"},
		{c0 + "securityContext", m{"seccompProfile": m{"type": "Localhost", "localhostProfile": "../x"}}, "must not contain '..'"},
		{c0 + "securityContext", m{"seccompProfile": m{"type": "Localhost", "localhostProfile": ""}}, ""}, // it can't be created
		{c0 + "securityContext", m{"privileged": true, "allowPrivilegeEscalation": false}, "cannot be false with privileged"},
		{c0 + "securityContext", m{"allowPrivilegeEscalation": false, "capabilities": m{"add": list{"SYS_ADMIN"}}}, ""},
		{c0 + "securityContext", m{"allowPrivilegeEscalation": false, "capabilities": m{"add": list{"CAP_SYS_ADMIN"}}}, "cannot be false with capability CAP_SYS_ADMIN"},
		{c0 + "securityContext", m{"windowsOptions": m{"runAsUserName": "a"}}, ""},
		{c0 + "securityContext", m{"procMount": "Unmasked"}, "needs hostUsers: false"},

		{"spec.securityContext", m{"fsGroup": 3000000000}, "spec.securityContext.fsGroup"},
		{"spec.securityContext", m{"supplementalGroups": list{-1}}, "spec.securityContext.supplementalGroups[0]"},
		{"spec.securityContext", m{"sysctls": list{m{"name": "net..x", "value": "1"}}}, "sysctls[0].name"},
		{"spec.securityContext", m{"sysctls": list{m{"name": "net.a"}, m{"name": "net.a"}}}, "sysctls[1].name: \"net.a\": given twice"},
		{"spec.securityContext", m{"sysctls": list{m{"name": "net.a"}, m{"name": "net/a"}}}, ""},
		{"spec.hostUsers", false, ""},

		{v0 + "name", "host", `spec.volumes[1].name: "host": given twice`},
		{v0 + "name", "", "spec.volumes[0].name: must be given"},
		{v0 + "emptyDir", m{"medium": "Tape"}, ""}, // it can't be mounted
		{v0 + "emptyDir", m{"sizeLimit": "-1"}, "spec.volumes[0].emptyDir.sizeLimit"},
		{v0 + "emptyDir", m{"medium": "HugePages-2Mi"}, ""},
		{v0 + "hostPath", m{"path": "srv"}, ""},
		{v0 + "hostPath", m{"path": "/a/../b"}, "must not contain '..'"},
		{v0 + "hostPath", m{"path": "/a", "type": "Door"}, "spec.volumes[0].hostPath.type"},
		{v0 + "downwardAPI", m{"items": list{m{"path": "a", "fieldRef": m{"fieldPath": "status.podIP"}}}}, "fieldPath"},
		{v0 + "downwardAPI", m{"items": list{m{"path": "a", "fieldRef": m{"fieldPath": "metadata.labels"}}}}, ""},
		{v0 + "downwardAPI", m{"items": list{m{"path": "..a", "fieldRef": m{"fieldPath": "metadata.labels"}}}}, "must not begin with '..'"},
		{v0 + "downwardAPI", m{"defaultMode": 0o1000}, "downwardAPI.defaultMode"},
		{v0 + "downwardAPI", m{"items": list{labels("a"), labels("a")}}, ""}, // the last counts
		{v0 + "downwardAPI", m{"items": list{cpu("none")}}, ""},
		{v0 + "downwardAPI", m{"items": list{cpu("")}}, "resourceFieldRef.containerName: must be given"},
		{v0 + "projected", m{"sources": list{m{"downwardAPI": m{"items": list{labels("a"), labels("a")}}}}}, "given twice"},
		{v0 + "projected", m{"sources": list{m{"downwardAPI": m{"items": list{labels("a"), labels("./a")}}}}}, ""},
		{v0 + "image", m{"reference": "web:1"}, ""},
		{v0 + "image", m{"reference": "web :1"}, ""},
		{v0 + "image", m{"reference": ""}, "image.reference: must be given"},

		// what needs the API
		{"spec.serviceAccountName", "default", "spec.serviceAccountName: a static pod cannot use a ServiceAccount"},
		{"spec.imagePullSecrets", list{m{"name": "a"}}, "spec.imagePullSecrets: a static pod cannot use a Secret"},
		{"spec.resourceClaims", list{m{"name": "a", "resourceClaimName": "b"}}, "spec.resourceClaims"},
		{c0 + "env.0", m{"name": "A", "valueFrom": m{"secretKeyRef": m{"name": "a", "key": "b"}}}, "env[0].valueFrom.secretKeyRef: a static pod cannot use a Secret"},
		{c0 + "envFrom", list{m{"configMapRef": m{"name": "a"}}}, "spec.containers[0].envFrom[0].configMapRef: a static pod cannot use a ConfigMap"},
		{i0 + "envFrom", list{m{"secretRef": m{"name": "a"}}}, "spec.initContainers[0].envFrom[0].secretRef"},
		{v0 + "secret", m{"secretName": "a"}, "spec.volumes[0].secret: a static pod cannot use a Secret"},
		{v0 + "configMap", m{"name": "a"}, "spec.volumes[0].configMap"},
		{v0 + "persistentVolumeClaim", m{"claimName": "a"}, "spec.volumes[0].persistentVolumeClaim"},
		{v0 + "csi", m{"driver": "a"}, "spec.volumes[0].csi"},
		{v0 + "projected", m{"sources": list{m{"serviceAccountToken": m{"path": "t"}}}}, "spec.volumes[0].projected.sources[0].serviceAccountToken"},
		{v0 + "projected", m{"sources": list{m{"downwardAPI": m{"items": list{m{"path": "a", "fieldRef": m{"fieldPath": "metadata.name"}}}}}}}, ""},
	}
	for _, c := range cases {
		t.Run(c.path+" "+c.want, func(t *testing.T) {
			d := Decode(encode(t, set(base(), c.path, c.value)), fromFile, nodeA, noon)
			if c.want == "" {
				if len(d.Problems) > 0 || len(d.Pods) != 1 {
					t.Fatalf("%d pods, problems %v", len(d.Pods), d.Problems)
				}
				return
			}
			wantProblem(t, d, c.want)
		})
	}
}

// TestTogether: rules that look at two parts of a pod.
func TestTogether(t *testing.T) {
	type list = []any
	type m = map[string]any
	port := func(host int) list { return list{m{"containerPort": 80, "hostPort": host}} }
	for name, c := range map[string]struct {
		parts m
		want  string
	}{
		"a port of the host in a sidecar and a main container": {m{"initContainers.1.ports": port(9), "containers.0.ports": port(9)}, ""},
		"and on the node's network":                            {m{"initContainers.1.ports": port(80), "containers.0.ports": port(80), "hostNetwork": true}, ""},
		"in two main containers": {m{"containers": list{
			m{"name": "a", "image": "a", "ports": port(9)}, m{"name": "b", "image": "b", "ports": port(9)},
		}}, "ports[0].hostPort: \"9/TCP\": given twice"},
		"another one on the node's network":                   {m{"containers.0.ports": port(9), "hostNetwork": true}, "must be the containerPort"},
		"another one on the node's network, of a sidecar":     {m{"initContainers.1.ports": port(9), "hostNetwork": true}, ""},
		"options of Windows in a pod for Linux":               {m{"securityContext": m{"windowsOptions": m{}}, "os": m{"name": "linux"}}, "windowsOptions: the pod has spec.os.name linux"},
		"options of Windows":                                  {m{"securityContext": m{"windowsOptions": m{}}}, ""},
		"an init container with a limit above the pod's":      {m{"initContainers.0.resources": m{"limits": m{"cpu": 3}, "requests": m{"cpu": 1}}, "resources": m{"limits": m{"cpu": 2}}}, ""},
		"a main container with a limit above the pod's":       {m{"containers.0.resources": m{"limits": m{"cpu": 3}, "requests": m{"cpu": 1}}, "resources": m{"limits": m{"cpu": 2}}}, "is more than the pod's limit"},
		"a preStop hook longer than a grace period below one": {m{"terminationGracePeriodSeconds": -5, "containers.0.lifecycle": m{"preStop": m{"sleep": m{"seconds": 2}}}}, "must be from 0 to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := base()
			for path, value := range c.parts {
				set(tree, "spec."+path, value)
			}
			d := Decode(encode(t, tree), fromFile, nodeA, noon)
			if c.want != "" {
				wantProblem(t, d, c.want)
			} else if len(d.Problems) > 0 || len(d.Pods) != 1 {
				t.Errorf("%d pods, problems %v", len(d.Pods), d.Problems)
			}
		})
	}
}

func TestProblemsComeInOneOrder(t *testing.T) {
	tree := set(set(set(base(), "spec.containers.0.image", ""), "spec.restartPolicy", "x"), "metadata.labels", map[string]any{"a b": "c", "d e": "f"})
	data := encode(t, tree)
	first := Decode(data, fromFile, nodeA, noon).Problems
	if len(first) != 4 {
		t.Fatalf("%d problems: %v", len(first), first)
	}
	for range 20 {
		if again := Decode(data, fromFile, nodeA, noon).Problems; !slices.Equal(first, again) {
			t.Fatalf("order changed:\n%v\n%v", first, again)
		}
	}
}

func TestUserNamespaceExcludesTheHosts(t *testing.T) {
	d := Decode(encode(t, set(set(base(), "spec.hostUsers", false), "spec.hostNetwork", true)), fromFile, nodeA, noon)
	wantProblem(t, d, "spec.hostNetwork: cannot be combined with hostUsers: false")
}
