package translate

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestVariablesAreNotCopied: a container may have megabytes of them.
func TestVariablesAreNotCopied(t *testing.T) {
	w := newWorld()
	w.env("A", strings.Repeat("x", 5<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := w.container(t)
	runtime.ReadMemStats(&after)
	check.Count(t, len(got.Envs[0].Value), 5<<20, "%d bytes of a variable")
	check.AtMost(t, after.TotalAlloc-before.TotalAlloc, 1<<20, "bytes that the request took")
}

func TestContainer(t *testing.T) {
	type config = runtimeapi.ContainerConfig
	for _, tt := range []struct {
		name   string
		mutate func(*world)
		look   func(*config) any
		want   any
	}{
		{"metadata", func(w *world) { w.r.Attempt = 3 }, func(c *config) any { return []any{c.Metadata.Name, c.Metadata.Attempt, c.LogPath} }, []any{"app", uint32(3), "app/3.log"}},
		{"image", func(*world) {}, func(c *config) any { return []any{c.Image.Image, c.Image.UserSpecifiedImage} }, []any{"sha256:ab", "r.io/app:1"}},
		{"labels", func(*world) {}, func(c *config) any { return c.Labels }, map[string]string{
			"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1", "io.kubernetes.container.name": "app"}},
		{"annotations", func(w *world) {
			w.r.Attempt = 2
			w.pod.Spec.TerminationGracePeriodSeconds = ptr[int64](30)
			w.pod.DeletionGracePeriodSeconds = ptr[int64](5)
			w.app.TerminationMessagePath, w.app.TerminationMessagePolicy = "/dev/termination-log", v1.TerminationMessageFallbackToLogsOnError
			w.app.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 2}}}
			w.app.Ports = []v1.ContainerPort{{Name: "http", ContainerPort: 80}}
		}, func(c *config) any { return c.Annotations }, map[string]string{
			"troupe.dev/container-spec-hash":                   "h1",
			"io.kubernetes.container.hash":                     "4826244c",
			"io.kubernetes.container.restartCount":             "2",
			"io.kubernetes.container.type":                     "container",
			"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
			"io.kubernetes.container.terminationMessagePolicy": "FallbackToLogsOnError",
			"io.kubernetes.container.preStopHandler":           `{"sleep":{"seconds":2}}`,
			"io.kubernetes.container.ports":                    `[{"name":"http","containerPort":80}]`,
			"io.kubernetes.pod.terminationGracePeriod":         "30",
			"io.kubernetes.pod.deletionGracePeriod":            "5",
		}},
		{"annotations of a device plugin", func(w *world) {
			w.r.Devices = &devices.Given{Annotations: map[string]string{
				"io.kubernetes.container.preStopHandler": `{"exec":{"command":["x"]}}`, "io.kubernetes.cri-o.Devices": "/dev/x",
			}}
		}, func(c *config) any {
			return []string{c.Annotations["io.kubernetes.container.preStopHandler"], c.Annotations["io.kubernetes.cri-o.Devices"]}
		}, []string{"", "/dev/x"}},
		{"type of an init container", func(w *world) {
			w.pod.Spec.InitContainers = []v1.Container{{Name: "first"}}
			w.r.Container = &w.pod.Spec.InitContainers[0]
		}, func(c *config) any { return c.Annotations["io.kubernetes.container.type"] }, "init"},
		{"command and arguments", func(w *world) {
			w.env("A", "a")
			w.app.Command, w.app.Args, w.app.WorkingDir = []string{"/$(A)", "$$(A)"}, []string{"$(B)", "x$(A)"}, "/$(A)"
		}, func(c *config) any { return [][]string{c.Command, c.Args, {c.WorkingDir}} }, [][]string{{"/a", "$(A)"}, {"$(B)", "xa"}, {"/$(A)"}}},
		{"variables", func(w *world) { w.env("B", "2", "A", "", "C", "$(D)") }, func(c *config) any {
			var got []string
			for _, kv := range c.Envs {
				got = append(got, kv.Key+"="+string(kv.Value))
			}
			return got
		}, []string{"B=2", "A=", "C=$(D)"}},
		{"no variables", func(*world) {}, func(c *config) any { return c.Envs == nil }, true},
		{"terminal", func(w *world) { w.app.Stdin, w.app.StdinOnce, w.app.TTY = true, true, true }, func(c *config) any { return []bool{c.Stdin, c.StdinOnce, c.Tty} }, []bool{true, true, true}},
		{"stop signal", func(w *world) { w.app.Lifecycle = &v1.Lifecycle{StopSignal: ptr(v1.SIGUSR1)} }, func(c *config) any { return c.StopSignal }, runtimeapi.Signal_SIGUSR1},
		{"no stop signal", func(*world) {}, func(c *config) any { return c.StopSignal }, runtimeapi.Signal_RUNTIME_DEFAULT},
		{"mounts", func(w *world) {
			w.capable()
			w.r.Mounts = []containerplan.Mount{
				{Name: "a", ContainerPath: "/a", HostPath: "/h/a", ReadOnly: true, RecursiveReadOnly: v1.RecursiveReadOnlyEnabled},
				{Name: "b", ContainerPath: "/b", HostPath: "/h/b", Propagation: v1.MountPropagationHostToContainer},
				{Name: "c", ContainerPath: "/c", HostPath: "/h/c", Propagation: v1.MountPropagationBidirectional},
				{Name: "d", ContainerPath: "data/dir:1", HostPath: "/h/d"},
			}
		}, func(c *config) any {
			var got []any
			for _, m := range c.Mounts {
				got = append(got, m.ContainerPath, m.HostPath, m.Readonly, m.RecursiveReadOnly, m.Propagation)
			}
			return got
		}, []any{
			"/a", "/h/a", true, true, runtimeapi.MountPropagation_PROPAGATION_PRIVATE,
			"/b", "/h/b", false, false, runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER,
			"/c", "/h/c", false, false, runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL,
			"/data/dir:1", "/h/d", false, false, runtimeapi.MountPropagation_PROPAGATION_PRIVATE,
		}},
		{"recursively read-only if possible, and it is not", func(w *world) {
			w.r.Mounts = []containerplan.Mount{{Name: "a", ReadOnly: true, RecursiveReadOnly: v1.RecursiveReadOnlyIfPossible}}
		}, func(c *config) any { return []any{c.Mounts[0].RecursiveReadOnly, c.Mounts[0].Readonly} }, []any{false, true}},
		{"recursively read-only if possible, and it is", func(w *world) {
			w.capable()
			w.r.Mounts = []containerplan.Mount{{Name: "a", ReadOnly: true, RecursiveReadOnly: v1.RecursiveReadOnlyIfPossible}}
		}, func(c *config) any { return c.Mounts[0].RecursiveReadOnly }, true},
		{"recursively read-only, disabled", func(w *world) {
			w.r.Mounts = []containerplan.Mount{{Name: "a", RecursiveReadOnly: v1.RecursiveReadOnlyDisabled}}
		}, func(c *config) any { return c.Mounts[0].RecursiveReadOnly }, false},
		{"labels of files", func(w *world) {
			w.node.FileLabels = func(path string) bool { return path != "/labeled" }
			w.r.Mounts = []containerplan.Mount{{Name: "own", Relabel: true}, {Name: "of the host"}, {Relabel: true, HostPath: "/labeled"}}
		}, func(c *config) any {
			return []bool{c.Mounts[0].SelinuxRelabel, c.Mounts[1].SelinuxRelabel, c.Mounts[2].SelinuxRelabel}
		}, []bool{true, false, false}},
		{"no labels without SELinux", func(w *world) { w.r.Mounts = []containerplan.Mount{{Name: "own", Relabel: true}} },
			func(c *config) any { return c.Mounts[0].SelinuxRelabel }, false},
		{"mounts in a user namespace", func(w *world) {
			w.capable()
			w.pod.Spec.HostUsers = ptr(false)
			w.r.Mounts = []containerplan.Mount{{ContainerPath: "/a", HostPath: "/h"}}
		}, func(c *config) any {
			u, m := c.Linux.SecurityContext.NamespaceOptions.UsernsOptions, c.Mounts[0]
			return []any{u.Mode, u.Uids[0].HostId, u.Gids[0].Length, m.UidMappings[0].HostId, m.GidMappings[0].HostId}
		}, []any{runtimeapi.NamespaceMode_POD, uint32(131072), uint32(65536), uint32(131072), uint32(131072)}},
		{"the processes of another container", func(w *world) { w.r.TargetID = "t1" }, func(c *config) any {
			o := c.Linux.SecurityContext.NamespaceOptions
			return []any{o.Pid, o.TargetId}
		}, []any{runtimeapi.NamespaceMode_TARGET, "t1"}},
		{"the processes of another container, which all share", func(w *world) {
			w.r.TargetID, w.pod.Spec.ShareProcessNamespace = "t1", ptr(true)
		}, func(c *config) any {
			o := c.Linux.SecurityContext.NamespaceOptions
			return []any{o.Pid, o.TargetId}
		}, []any{runtimeapi.NamespaceMode_POD, ""}},
		{"the processes of another container, and the node's", func(w *world) {
			w.r.TargetID, w.pod.Spec.HostPID = "t1", true
		}, func(c *config) any { return c.Linux.SecurityContext.NamespaceOptions.Pid }, runtimeapi.NamespaceMode_NODE},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.mutate(w)
			check.Deep(t, tt.look(w.container(t)), tt.want, "\n got")
		})
	}
}

func TestContainerThatCannotBe(t *testing.T) {
	for want, mutate := range map[string]func(*world){
		`lifecycle.stopSignal "SIGODD" is unknown`:          func(w *world) { w.app.Lifecycle = &v1.Lifecycle{StopSignal: ptr(v1.Signal("SIGODD"))} },
		`volume mount a: mountPropagation "Odd" is unknown`: func(w *world) { w.r.Mounts = []containerplan.Mount{{Name: "a", Propagation: "Odd"}} },
		`volume "a" requested recursive read-only mode, but it is not read-only`: func(w *world) {
			w.r.Mounts = []containerplan.Mount{{Name: "a", RecursiveReadOnly: v1.RecursiveReadOnlyEnabled}}
		},
		`volume "a" requested recursive read-only mode, but it is not compatible with propagation "HostToContainer"`: func(w *world) {
			w.r.Mounts = []containerplan.Mount{{Name: "a", ReadOnly: true, RecursiveReadOnly: v1.RecursiveReadOnlyEnabled, Propagation: v1.MountPropagationHostToContainer}}
		},
		`failed to resolve recursive read-only mode: volume "a" requested recursive read-only mode, but it is not supported by the runtime`: func(w *world) {
			w.r.Mounts = []containerplan.Mount{{Name: "a", ReadOnly: true, RecursiveReadOnly: v1.RecursiveReadOnlyEnabled}}
		},
		`volume mount a: recursiveReadOnly "Odd" is unknown`:                          func(w *world) { w.r.Mounts = []containerplan.Mount{{Name: "a", RecursiveReadOnly: "Odd"}} },
		"can't set `spec.hostUsers: false`, runtime does not support user namespaces": func(w *world) { w.pod.Spec.HostUsers = ptr(false) },
		"spec.hostname": func(w *world) { w.pod.Spec.Hostname = "A b" },
		"seccompProfile.localhostProfile must be set": func(w *world) {
			w.app.SecurityContext = &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost}}
		},
		`seccompProfile.localhostProfile "../x" leads out`: func(w *world) {
			w.app.SecurityContext = &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("../x")}}
		},
		`seccompProfile.type "Odd" is unknown`: func(w *world) {
			w.app.SecurityContext = &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: "Odd"}}
		},
		"appArmorProfile.localhostProfile must be set": func(w *world) {
			w.app.SecurityContext = &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost}}
		},
		`appArmorProfile.type "Odd" is unknown`: func(w *world) {
			w.app.SecurityContext = &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: "Odd"}}
		},
		"container has runAsNonRoot and image will run as root (pod: \"web_default(u1)\", container: app)": func(w *world) { w.app.SecurityContext = &v1.SecurityContext{RunAsNonRoot: ptr(true)} },
	} {
		w := newWorld()
		mutate(w)
		_, err := Container(w.node, w.r)
		wantInvalid(t, err, want)
		wantInvalid(t, err, "CreateContainer default/web/app: ")
	}
}

// TestHandlerOfAContainer: what its handler can do counts, not what another one can.
func TestHandlerOfAContainer(t *testing.T) {
	w := newWorld()
	w.capable()
	w.r.Mounts = []containerplan.Mount{{Name: "a", ReadOnly: true, RecursiveReadOnly: v1.RecursiveReadOnlyIfPossible}}
	if !w.container(t).Mounts[0].RecursiveReadOnly {
		t.Error("the default handler can, and the mount is not recursively read-only")
	}
	w.r.RuntimeHandler = "kata"
	if w.container(t).Mounts[0].RecursiveReadOnly {
		t.Error("kata cannot, and the mount is recursively read-only")
	}
}

func TestContainerTellsTheSandboxAgain(t *testing.T) {
	w := newWorld()
	w.r.SandboxAttempt, w.r.LogDirectory = 2, "/logs/of/pod"
	got, err := Container(w.node, w.r)
	if err != nil || got.PodSandboxId != "s1" || got.SandboxConfig.Metadata.Attempt != 2 || got.SandboxConfig.LogDirectory != "/logs/of/pod" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSecurity(t *testing.T) {
	type context = runtimeapi.LinuxContainerSecurityContext
	withPod := func(sc v1.PodSecurityContext) func(*world) {
		return func(w *world) { w.pod.Spec.SecurityContext = &sc }
	}
	with := func(sc v1.SecurityContext) func(*world) { return func(w *world) { w.app.SecurityContext = &sc } }
	both := func(all ...func(*world)) func(*world) {
		return func(w *world) {
			for _, f := range all {
				f(w)
			}
		}
	}
	users := func(c *context) any {
		var user, group int64 = -1, -1
		if c.RunAsUser != nil {
			user = c.RunAsUser.Value
		}
		if c.RunAsGroup != nil {
			group = c.RunAsGroup.Value
		}
		return []any{user, group, c.RunAsUsername}
	}
	seccomp := func(c *context) any { return []any{c.Seccomp.ProfileType, c.Seccomp.LocalhostRef} }
	armor := func(c *context) any {
		text := c.ApparmorProfile //nolint:staticcheck // containerd 1.6 reads this one alone
		if c.Apparmor == nil {
			return text
		}
		return []any{c.Apparmor.ProfileType, c.Apparmor.LocalhostRef, text}
	}
	for _, tt := range []struct {
		name   string
		mutate func(*world)
		look   func(*context) any
		want   any
	}{
		{"image of root", func(*world) {}, users, []any{int64(0), int64(-1), ""}},
		{"image's user", func(w *world) { w.image.UID = ptr[int64](9) }, users, []any{int64(9), int64(-1), ""}},
		{"image's user by name", func(w *world) { w.image.Username = "www" }, users, []any{int64(-1), int64(-1), "www"}},
		{"image not known", func(w *world) { *w.image = observed.Image{} }, users, []any{int64(-1), int64(-1), ""}},
		{"pod's user and group", withPod(v1.PodSecurityContext{RunAsUser: ptr[int64](1), RunAsGroup: ptr[int64](2)}), users, []any{int64(1), int64(2), ""}},
		{"container's user before its pod's", both(withPod(v1.PodSecurityContext{RunAsUser: ptr[int64](1), RunAsGroup: ptr[int64](2)}),
			with(v1.SecurityContext{RunAsUser: ptr[int64](3), RunAsGroup: ptr[int64](4)})), users, []any{int64(3), int64(4), ""}},
		{"user before the image's name", both(func(w *world) { w.image.Username = "www" }, with(v1.SecurityContext{RunAsUser: ptr[int64](3)})), users, []any{int64(3), int64(-1), ""}},
		{"groups", withPod(v1.PodSecurityContext{FSGroup: ptr[int64](5), SupplementalGroups: []int64{6}}), func(c *context) any { return c.SupplementalGroups }, []int64{5, 6}},
		{"groups of its volumes", both(withPod(v1.PodSecurityContext{FSGroup: ptr[int64](5), SupplementalGroups: []int64{6}}),
			func(w *world) { w.r.Groups = []int64{7} }), func(c *context) any { return c.SupplementalGroups }, []int64{5, 6, 7}},
		{"flags", with(v1.SecurityContext{Privileged: ptr(true), ReadOnlyRootFilesystem: ptr(true), AllowPrivilegeEscalation: ptr(false)}),
			func(c *context) any { return []bool{c.Privileged, c.ReadonlyRootfs, c.NoNewPrivs} }, []bool{true, true, true}},
		{"no flags", with(v1.SecurityContext{AllowPrivilegeEscalation: ptr(true)}), func(c *context) any { return []bool{c.Privileged, c.ReadonlyRootfs, c.NoNewPrivs} }, []bool{false, false, false}},
		{"capabilities", with(v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}}}),
			func(c *context) any {
				return [][]string{c.Capabilities.AddCapabilities, c.Capabilities.DropCapabilities}
			}, [][]string{{"NET_ADMIN"}, {"ALL"}}},
		{"masked paths", func(w *world) { w.node.PossibleCPUs = 2 }, func(c *context) any {
			return []any{slices.Contains(c.MaskedPaths, "/proc/kcore"), c.MaskedPaths[len(c.MaskedPaths)-1], slices.Contains(c.ReadonlyPaths, "/proc/sys")}
		}, []any{true, "/sys/devices/system/cpu/cpu1/thermal_throttle", true}},
		{"unmasked", with(v1.SecurityContext{ProcMount: ptr(v1.UnmaskedProcMount)}), func(c *context) any { return len(c.MaskedPaths) + len(c.ReadonlyPaths) }, 0},
		{"SELinux", both(withPod(v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: "p", Role: "r"}}), with(v1.SecurityContext{SELinuxOptions: &v1.SELinuxOptions{Type: "c"}})),
			func(c *context) any { return []string{c.SelinuxOptions.Type, c.SelinuxOptions.Role} }, []string{"c", ""}},

		{"seccomp by default", func(*world) {}, seccomp, []any{runtimeapi.SecurityProfile_Unconfined, ""}},
		{"seccomp by the node's default", func(w *world) { w.node.SeccompDefault = true }, seccomp, []any{runtimeapi.SecurityProfile_RuntimeDefault, ""}},
		{"seccomp of the pod", withPod(v1.PodSecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}}), seccomp, []any{runtimeapi.SecurityProfile_RuntimeDefault, ""}},
		{"seccomp of the container", both(withPod(v1.PodSecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}}),
			with(v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("a/b.json")}})),
			seccomp, []any{runtimeapi.SecurityProfile_Localhost, "/var/lib/troupe/seccomp/a/b.json"}},
		{"seccomp off", both(func(w *world) { w.node.SeccompDefault = true }, with(v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}})),
			seccomp, []any{runtimeapi.SecurityProfile_Unconfined, ""}},

		{"AppArmor by default", func(*world) {}, armor, ""},
		{"AppArmor of the pod", withPod(v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}}), armor, []any{runtimeapi.SecurityProfile_Unconfined, "", "unconfined"}},
		{"AppArmor by annotation", both(withPod(v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}}),
			func(w *world) {
				w.pod.Annotations["container.apparmor.security.beta.kubernetes.io/app"] = "localhost/p"
			}), armor, []any{runtimeapi.SecurityProfile_Localhost, "p", "localhost/p"}},
		{"AppArmor of the container", both(func(w *world) { w.pod.Annotations["container.apparmor.security.beta.kubernetes.io/app"] = "unconfined" },
			with(v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}})), armor, []any{runtimeapi.SecurityProfile_RuntimeDefault, "", "runtime/default"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.mutate(w)
			check.Deep(t, tt.look(w.container(t).Linux.SecurityContext), tt.want, "got")
		})
	}
}

func TestNonRoot(t *testing.T) {
	const where = ` (pod: "web_default(u1)", container: app)`
	nonRoot := v1.PodSecurityContext{RunAsNonRoot: ptr(true)}
	for _, tt := range []struct {
		name  string
		pod   v1.PodSecurityContext
		app   v1.SecurityContext
		image observed.Image
		want  string
	}{
		{"not asked for", v1.PodSecurityContext{}, v1.SecurityContext{}, observed.Image{UID: ptr[int64](0)}, ""},
		{"image of a user", nonRoot, v1.SecurityContext{}, observed.Image{UID: ptr[int64](7)}, ""},
		{"image of root", nonRoot, v1.SecurityContext{}, observed.Image{UID: ptr[int64](0)}, "container has runAsNonRoot and image will run as root" + where},
		{"image of nobody in particular", nonRoot, v1.SecurityContext{}, observed.Image{ID: "x"}, "container has runAsNonRoot and image will run as root" + where},
		{"image of a name", nonRoot, v1.SecurityContext{}, observed.Image{Username: "www"}, "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root" + where},
		{"image of an impossible user", nonRoot, v1.SecurityContext{}, observed.Image{UID: ptr[int64](1 << 40)}, "container has runAsNonRoot and image has an invalid user id (1099511627776): must be between 1 and 2147483647" + where},
		{"user given", nonRoot, v1.SecurityContext{RunAsUser: ptr[int64](7)}, observed.Image{UID: ptr[int64](0)}, ""},
		{"root given", v1.PodSecurityContext{RunAsNonRoot: ptr(true), RunAsUser: ptr[int64](0)}, v1.SecurityContext{}, observed.Image{UID: ptr[int64](7)}, "container's runAsUser breaks non-root policy" + where},
		{"container allows root", nonRoot, v1.SecurityContext{RunAsNonRoot: ptr(false)}, observed.Image{UID: ptr[int64](0)}, ""},
	} {
		w := newWorld()
		w.pod.Spec.SecurityContext, w.app.SecurityContext = &tt.pod, &tt.app
		got := ""
		if err := verifyNonRoot(w.pod, w.app, tt.image); err != nil {
			got = err.Error()
		}
		check.Equal(t, got, tt.want, "%s:\n got", tt.name)
	}
}
