package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	imagev1 "github.com/google/go-containerregistry/pkg/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// badPod is a pod that asks for what can't be, and what a user is told of it.
type badPod struct {
	change func(*v1.Pod)
	// want are parts of the lines of a verdict, those of the kubelet too.
	want []string
	// own are those of troupe alone: where it says more.
	own []string
}

// The parts that bad pods are made of.

func spec(f func(*v1.PodSpec)) func(*v1.Pod) { return func(p *v1.Pod) { f(&p.Spec) } }

func app(f func(*v1.Container)) func(*v1.Pod) { return func(p *v1.Pod) { f(&p.Spec.Containers[0]) } }

func all(fs ...func(*v1.Pod)) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for _, f := range fs {
			f(p)
		}
	}
}

// here puts a pod past the scheduler.
func here(p *v1.Pod) { p.Spec.NodeName = p.Spec.NodeSelector["test"] }

func mountOf(source v1.VolumeSource) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "v", VolumeSource: source})
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "v", MountPath: "/v"})
	}
}

var emptyDir = v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}

func expr(s string) func(*v1.Pod) {
	return app(func(c *v1.Container) {
		c.VolumeMounts[0].SubPathExpr = s
		c.Env = []v1.EnvVar{{Name: "ROOT", Value: "/etc"}, {Name: "UP", Value: "../.."}}
	})
}

func podSecurity(f func(*v1.PodSecurityContext)) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{}
		f(p.Spec.SecurityContext)
	}
}

func appSecurity(f func(*v1.SecurityContext)) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{}
		f(p.Spec.Containers[0].SecurityContext)
	}
}

func ofName(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

func env(from v1.EnvVarSource) func(*v1.Pod) {
	return app(func(c *v1.Container) { c.Env = append(c.Env, v1.EnvVar{Name: "V", ValueFrom: &from}) })
}

func asks(name v1.ResourceName, amount string) func(*v1.Pod) {
	return app(func(c *v1.Container) {
		c.Resources.Requests = v1.ResourceList{name: resource.MustParse(amount)}
	})
}

func image(name string) func(*v1.Pod) { return app(func(c *v1.Container) { c.Image = name }) }

// waits, rejects, fails and mounts are what is said of a pod in one way.

func waits(status, message string) []string {
	return []string{"0/1 " + status + " 0", "app waits: " + status + ": " + message, "Warning Failed: Error: " + message}
}

func rejects(reason, message string) []string {
	return []string{"0/1 " + reason + " 0", "pod: " + reason + ": Pod was rejected: " + message, "Warning " + reason + ": " + message}
}

func mounts(message string) []string {
	return []string{"0/1 ContainerCreating 0", `Warning FailedMount: MountVolume.SetUp failed for volume "v" : ` + message}
}

const namedUserImage = "troupe.local/demo/named-user:v1"

// badPods are by name; links is a directory of which the link out leads to /etc.
func badPods(links string) map[string]badPod {
	inLinks := v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: links}}
	hostPath := func(path string, kind v1.HostPathType) func(*v1.Pod) {
		return mountOf(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}})
	}
	return map[string]badPod{
		// What the node does not let in.
		"sysctl": {
			change: podSecurity(func(s *v1.PodSecurityContext) { s.Sysctls = []v1.Sysctl{{Name: "kernel.msgmax", Value: "1"}} }),
			want:   rejects("SysctlForbidden", `forbidden sysctl: "kernel.msgmax" not allowlisted`),
		},
		"selector": {
			change: all(here, func(p *v1.Pod) { p.Spec.NodeSelector["disk"] = "x" }),
			want:   rejects("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"),
		},
		"os": {
			change: all(here, spec(func(s *v1.PodSpec) { s.OS = &v1.PodOS{Name: v1.Windows} })),
			want:   rejects("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
		},
		"os-label": {
			change: all(here, func(p *v1.Pod) { p.Labels = map[string]string{v1.LabelOSStable: "windows"} }),
			want:   rejects("PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"),
		},
		"cpu":    {change: all(here, asks("cpu", "1000")), want: rejects("OutOfcpu", "Node didn't have enough resource: cpu, requested: 1000000, used: ")},
		"memory": {change: all(here, asks("memory", "1Pi")), want: rejects("OutOfmemory", "Node didn't have enough resource: memory, requested: 1125899906842624, used: ")},

		// Variables.
		"configmap": {change: env(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: ofName("none"), Key: "k"}}), want: waits("CreateContainerConfigError", `configmap "none" not found`)},
		"key":       {change: env(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: ofName("there"), Key: "none"}}), want: waits("CreateContainerConfigError", "couldn't find key none in ConfigMap NS/there")},
		"secret":    {change: env(v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: ofName("none"), Key: "k"}}), want: waits("CreateContainerConfigError", `secret "none" not found`)},
		"from": {change: app(func(c *v1.Container) {
			c.EnvFrom = []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: ofName("none")}}}
		}), want: waits("CreateContainerConfigError", `secret "none" not found`)},
		"init": {change: func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{*p.Spec.Containers[0].DeepCopy()}
			p.Spec.InitContainers[0].Name = "one"
			p.Spec.InitContainers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: ofName("none")}}}
		}, want: []string{"0/1 Init:CreateContainerConfigError 0", `one waits: CreateContainerConfigError: configmap "none" not found`, "app waits: PodInitializing: ", `Warning Failed: Error: configmap "none" not found`}},
		"env-file": {
			change: all(mountOf(emptyDir), env(v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "x.env", Key: "K"}})),
			want:   []string{"0/1 CreateContainerConfigError 0", "couldn't parse env file"},
			own:    []string{`there is no x.env in volume "v"`},
		},
		"cycle":   {change: app(func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", Value: "$(B)"}, {Name: "B", Value: "$(A)"}} }), want: []string{"1/1 Running 0"}},
		"big-env": {change: all(spec(work("exit 0")), app(func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", Value: strings.Repeat("x", 1_000_000)}} })), want: []string{"Warning BackOff: Back-off restarting failed container app in pod big-env_NS(UID)"}},

		// Who a container runs as, and what it may.
		"root": {
			change: podSecurity(func(s *v1.PodSecurityContext) { s.RunAsNonRoot = new(true) }),
			want:   waits("CreateContainerConfigError", `container has runAsNonRoot and image will run as root (pod: "root_NS(UID)", container: app)`),
		},
		"root-user": {
			change: podSecurity(func(s *v1.PodSecurityContext) { s.RunAsNonRoot, s.RunAsUser = new(true), new(int64(0)) }),
			want:   waits("CreateContainerConfigError", `container's runAsUser breaks non-root policy (pod: "root-user_NS(UID)", container: app)`),
		},
		"root-name": {
			change: all(image(namedUserImage), podSecurity(func(s *v1.PodSecurityContext) { s.RunAsNonRoot = new(true) })),
			want:   waits("CreateContainerConfigError", `container has runAsNonRoot and image has non-numeric user (user), cannot verify user is non-root (pod: "root-name_NS(UID)", container: app)`),
		},
		"seccomp": {change: podSecurity(func(s *v1.PodSecurityContext) {
			s.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: new("none.json")}
		}), want: []string{"0/1 CreateContainerError 0", `cannot load seccomp profile "`, "/seccomp/none.json: no such file or directory"}},
		"runtime-class": {
			change: spec(func(s *v1.PodSpec) { s.RuntimeClassName = new("none-NS") }),
			want:   []string{"0/1 ContainerCreating 0", "Warning FailedCreatePodSandBox: Failed to create pod sandbox: ", `no runtime for "none" is configured`},
		},

		// Names.
		"fqdn": {
			change: spec(func(s *v1.PodSpec) {
				s.Hostname, s.Subdomain, s.SetHostnameAsFQDN = strings.Repeat("h", 50), "sub", new(true)
			}),
			want: []string{"Warning FailedCreatePodSandBox: Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN " +
				strings.Repeat("h", 50) + ".sub.NS.svc.cluster.local is too long (64 characters is the max, "},
		},
		"servers": {change: spec(func(s *v1.PodSpec) {
			s.DNSPolicy, s.DNSConfig = v1.DNSDefault, &v1.PodDNSConfig{Nameservers: []string{"10.9.9.1", "10.9.9.2", "10.9.9.3"}}
		}), want: []string{"Warning DNSConfigForming: Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 127.0.0.1 10.9.9.1 10.9.9.2"}},
		"searches": {change: spec(func(s *v1.PodSpec) {
			s.DNSConfig = &v1.PodDNSConfig{}
			for i := range 30 {
				s.DNSConfig.Searches = append(s.DNSConfig.Searches, fmt.Sprintf("s%d.example", i))
			}
		}), want: []string{"1/1 Running 0", "Warning DNSConfigForming: Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " +
			"NS.svc.cluster.local svc.cluster.local cluster.local s0.example", " s28.example"}},

		// Images, commands, probes, hooks.
		"image": {
			change: image("BAD:image"),
			want: []string{"0/1 InvalidImageName 0", `app waits: InvalidImageName: Failed to apply default image tag "BAD:image": couldn't parse image name "BAD:image": invalid reference format: `,
				"Warning InspectFailed: ", "Warning Failed: Error: InvalidImageName"},
		},
		"never": {
			change: app(func(c *v1.Container) { c.Image, c.ImagePullPolicy = "troupe.local/demo/none:v2", v1.PullNever }),
			want: []string{"0/1 ErrImageNeverPull 0", `app waits: ErrImageNeverPull: Container image "troupe.local/demo/none:v2" is not present with pull policy of Never`,
				"Warning ErrImageNeverPull: ", "Warning Failed: Error: ErrImageNeverPull"},
		},
		"absent": {
			change: image("troupe.local/demo/none:v3"),
			want:   []string{`Warning Failed: Failed to pull image "troupe.local/demo/none:v3": `, "Warning Failed: Error: ErrImagePull", "Warning Failed: Error: ImagePullBackOff", `Normal BackOff: Back-off pulling image "troupe.local/demo/none:v3"`},
		},
		"command": {
			change: app(func(c *v1.Container) { c.Command = []string{"/none"} }),
			want: []string{"app ended: StartError 128: ", `exec: "/none": stat /none: no such file or directory`, "Warning Failed: Error: ",
				"Warning BackOff: Back-off restarting failed container app in pod command_NS(UID)"},
		},
		"port": {
			change: app(func(c *v1.Container) {
				c.ReadinessProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("none"), Path: "/"}}}
			}),
			want: []string{"0/1 Running 0", "Warning Unhealthy: Readiness probe errored and resulted in unknown state: "},
			own:  []string{`container "app" has no port named "none"`},
		},
		"hook": {
			change: app(func(c *v1.Container) {
				c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/none"}}}}
			}),
			want: []string{"Warning FailedPostStartHook: PostStartHook failed", "Normal Killing: FailedPostStartHook"},
		},

		// Volumes.
		"v-configmap": {change: mountOf(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ofName("none")}}), want: mounts(`configmap "none" not found`)},
		"v-key":       {change: mountOf(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ofName("there"), Items: []v1.KeyToPath{{Key: "none", Path: "x"}}}}), want: mounts("configmap references non-existent config key: none")},
		"v-secret":    {change: mountOf(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "none"}}), want: mounts(`secret "none" not found`)},
		"v-projected": {change: mountOf(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{Secret: &v1.SecretProjection{LocalObjectReference: ofName("none")}}}}}), want: mounts(`secret "none" not found`)},
		"v-claim":     {change: all(here, mountOf(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "none"}})), want: []string{"0/1 ContainerCreating 0"}, own: []string{`Warning FailedMount: Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: error processing PVC `}},
		"v-csi":       {change: mountOf(v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "none.example"}}), want: []string{"0/1 ContainerCreating 0", `Warning FailedMount: MountVolume.SetUp failed for volume "v" : `, "driver name none.example not found in the list of registered CSI drivers"}},
		"v-directory": {change: hostPath("/none/of/it", v1.HostPathDirectory), want: mounts("hostPath type check failed: /none/of/it is not a directory")},
		"v-file":      {change: hostPath("/etc", v1.HostPathFile), want: mounts("hostPath type check failed: /etc is not a file")},
		"v-socket":    {change: hostPath("/etc", v1.HostPathSocket), want: mounts("hostPath type check failed: /etc is not a socket file")},
		"v-huge":      {change: mountOf(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "HugePages-1Gi"}}), want: mounts("")},
		"v-image":     {change: mountOf(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "troupe.local/demo/none:v4"}}), want: []string{`Warning Failed: Failed to pull image "troupe.local/demo/none:v4": `}},
		"s-link":      {change: all(mountOf(inLinks), app(func(c *v1.Container) { c.VolumeMounts[0].SubPath = "out" })), want: []string{"0/1 CreateContainerConfigError 0", `Warning Failed: Error: failed to prepare subPath for volumeMount "v" of container "app"`}, own: []string{`subPath "out" points outside its volume through a symbolic link`}},
		"s-below":     {change: all(mountOf(inLinks), app(func(c *v1.Container) { c.VolumeMounts[0].SubPath = "out/x" })), want: []string{"0/1 CreateContainerConfigError 0", `volumeMount "v" of container "app"`}, own: []string{`subPath "out/x" points outside its volume through a symbolic link`}},
		"s-missing":   {change: all(mountOf(emptyDir), expr("$(NONE)")), want: []string{"0/1 CreateContainerConfigError 0", "missing value for "}},
		"s-root":      {change: all(mountOf(emptyDir), expr("$(ROOT)")), want: waits("CreateContainerConfigError", "error SubPath `/etc` must not be an absolute path")},
		"s-up":        {change: all(mountOf(emptyDir), expr("a/$(UP)")), want: waits("CreateContainerConfigError", "unable to provision SubPath `a/../..`: must not contain '..'")},
	}
}

// TestBadInput: what a pod that can't be shows, by kubectl get and describe, is
// what the kubelet shows, and no other pod notices.
//
//tier:real
func TestBadInput(t *testing.T) {
	t.Parallel()
	asKubelet(t, "bad-input", func(t *testing.T, b *bed, kubelet bool) {
		links := check.Value(os.MkdirTemp(shared.Dir, ""))(t)
		check.Fatal(t, os.Symlink("/etc", filepath.Join(links, "out")))
		b.pushNamedUser(t)
		b.configMap(t, "there", map[string]string{"k": "one"})
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "none-" + b.name}, Handler: "none"}
		check.Value(b.admin.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{}))(t)
		t.Cleanup(func() {
			check.Error(t, b.admin.NodeV1().RuntimeClasses().Delete(context.Background(), class.Name, metav1.DeleteOptions{}))
		})
		b.create(t, b.pod("bystander", nil))
		pods := badPods(links)
		for name, bad := range pods {
			p := b.pod(name, nil)
			bad.change(p)
			if c := p.Spec.RuntimeClassName; c != nil {
				*c = strings.ReplaceAll(*c, "NS", b.name)
			}
			b.create(t, p)
		}
		for name, bad := range pods {
			want := bad.want
			if !kubelet {
				want = slices.Concat(want, bad.own)
			}
			t.Run(name, func(t *testing.T) { b.awaitVerdict(t, name, want) })
		}
		p := b.awaitPod(t, "bystander", "is ready", ready)
		check.Count(t, p.Status.ContainerStatuses[0].RestartCount, 0, "the pod beside them was restarted %d times")
		check.Fails(t, check.Err(os.Stat("/etc/x")), "a subPath made /etc/x")
		check.Fatal(t, b.admin.CoreV1().Pods(b.name).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}, metav1.ListOptions{}))
		b.await(t, "nothing is left of any of them", func() error {
			list, err := b.admin.CoreV1().Pods(b.name).List(t.Context(), metav1.ListOptions{})
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d pods", len(list.Items))
			}
			if err == nil && !kubelet { // which leaves sandboxes to its own collection of garbage
				err = b.world(t).Empty()
			}
			return err
		})
	})
}

// reference, if set, has tests that say what the kubelet does run with it as well, as they do in full:
// go tool task test KUBELET=1.
const reference = "TROUPE_TEST_KUBELET"

// compared are the agents that such tests run with.
func compared() []string {
	if os.Getenv(reference) != "" || lab.Full() {
		return []string{"troupe", "kubelet"}
	}
	return []string{"troupe"}
}

// asKubelet runs a test with troupe that says what the kubelet does. With [reference], or in full, it also runs with the
// kubelet, which shows that the test is right.
func asKubelet(t *testing.T, name string, f func(t *testing.T, b *bed, kubelet bool)) {
	onAgents(t, compared(), name, func(string) []string { return nil }, f)
}

// onBoth runs a test with troupe and with the real kubelet. settings are more lines of KubeletConfiguration, by the
// agent's name.
func onBoth(t *testing.T, name string, settings func(agent string) []string, f func(t *testing.T, b *bed, kubelet bool)) {
	onAgents(t, slices.Collect(maps.Keys(agents())), name, settings, f)
}

func onAgents(t *testing.T, with []string, name string, settings func(agent string) []string, f func(t *testing.T, b *bed, kubelet bool)) {
	for _, agent := range with {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			f(t, joined(t, name+"-"+agent, agentOf(t, agent), settings(agent)...), agent == "kubelet")
		})
	}
}

// pushNamedUser serves an image that runs as a user by name.
func (b *bed) pushNamedUser(t *testing.T) {
	t.Helper()
	repository := check.Value(lab.Repository())(t)
	binary := check.Value(lab.BuildProgram(t.Context(), repository, "web"))(t)
	image := check.Value(
		lab.NewImage(imagev1.Config{Entrypoint: []string{"/web"}, User: "user"}, lab.File{Path: "web", Mode: 0o755, Data: binary}))(t)
	registry := check.Value(shared.Registry())(t)
	check.Fatal(t, registry.Push(t.Context(), namedUserImage, image))
}

// awaitVerdict polls until each of want is in a line of a pod's verdict.
func (b *bed) awaitVerdict(t *testing.T, name string, want []string) {
	t.Helper()
	missing := slices.Clone(want) // what was seen once need not be seen again: a status goes on
	b.await(t, "pod "+name+" says all", func() error {
		lines := check.Must(b.verdict(t.Context(), name))
		missing = slices.DeleteFunc(missing, func(s string) bool {
			return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, s) })
		})
		if len(missing) > 0 {
			return errors.New("it does not say\n\t" + strings.Join(missing, "\n\t") + "\nbut\n\t" + strings.Join(lines, "\n\t"))
		}
		return nil
	})
}
