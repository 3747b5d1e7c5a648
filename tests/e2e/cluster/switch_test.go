package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// firstWithFormats is the commit from which on checkpoints have the number of their format (docs/decisions/0106).
const firstWithFormats = "359cfeb2"

// releases are those that docs/switch.md installs: the first with numbers of formats, one of what is here, and one that
// writes the next format.
func releases() []lab.Package {
	return []lab.Package{
		{Version: "0.36.0", Commit: firstWithFormats},
		{Version: "0.36.1"},
		{Version: "0.37.0", Edit: map[string]func(string) string{"actors/checkpoint/seal.go": func(text string) string {
			const is = "const Format = %d\n"
			return strings.Replace(text, fmt.Sprintf(is, checkpoint.Format), fmt.Sprintf(is, checkpoint.Format+1), 1)
		}}},
	}
}

// switchSettings are those of a node with exclusive CPUs and memory, static pods, and chains of iptables: a format.
const switchSettings = `cpuManagerPolicy: static
reservedSystemCPUs: %q
memoryManagerPolicy: Static
systemReserved: {memory: 99Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]
makeIPTablesUtilChains: true
imageGCHighThresholdPercent: 100
staticPodPath: %s
`

// TestSwitch does what docs/switch.md says, with the commands that stand there: a node with 20 pods goes from the
// kubelet to troupe, to a newer release, back to an older one, and back to the kubelet. No container is restarted, but
// that of the static pod between the kubelet and troupe. What an agent leaves on a machine is what was there before. An
// older release that meets the state of a newer one says so, and changes nothing.
//
//tier:all builds three releases, and the kubelet runs
func TestSwitch(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.GoToolchain, lab.HasCommit(firstWithFormats), lab.NewRequirement("amd64", func() error {
		return check.Is(runtime.GOARCH, "amd64", "the page installs packages for amd64; this is")
	}))
	all, own := twoCPUs(t)
	manifests := t.TempDir()
	machine := newDebian(t, "docs/switch.md", releases()...)
	b := newCSIBed(t, "switch", machine.agent(), nil, fmt.Sprintf(switchSettings, strconv.Itoa(all.List()[0]), manifests))
	machine.bed = b.bed
	s := &switched{debian: machine, csi: b, own: strconv.Itoa(own), rest: all.Difference(cpuset.New(own)).String()}
	s.runTwenty(t, manifests)
	before := s.traces(t)

	machine.follow(t, "Look first")
	s.held(t, "the look")
	s.step(t, "Switch", "+troupe.0.36.0", "Switch")
	// What came with the kubelet, such as the plugins of pods' networks, does not go after it.
	check.Has(t, machine.does(t, "apt-get autoremove --dry-run"), ", 0 to remove ", "what nothing needs any more")
	check.Has(t, machine.follow(t, "Look afterwards"), "twenty-all", "what troupe says of pods")
	s.step(t, "Upgrade", "+troupe.0.36.1", "Upgrade")
	s.step(t, "Go back to an older release", "+troupe.0.36.0", "an older release")
	s.refused(t)
	s.step(t, "Back to the kubelet", lab.KubeadmVersion, "the kubelet")

	s.csi.ends(t, s.last)
	check.Error(t, lab.Eventually(t.Context(), time.Minute, "a machine as it was", func() error {
		return check.That(reflect.DeepEqual(s.traces(t), before), "it is not")
	}))
	after := s.traces(t)
	for kind := range before {
		unlike(t, after[kind], before[kind], "%s, after the way back", kind)
	}
	for kind, least := range map[string]int{"mounts": 30, "cgroups": 40, "files": 200, "rules": 2} {
		check.AtLeast(t, len(before[kind]), least, "%s before", kind)
	}
	for section := range machine.page {
		check.Equal(t, machine.ran[section], true, "the commands below %q were run", section)
	}
	check.Fatal(t, os.Remove(filepath.Join(manifests, "static.yaml")))
	b.noPods(t)
	b.awaitNothing(t, b.Root())
}

// switched is a node whose agent is replaced.
type switched struct {
	*debian
	csi       *csiBed
	devices   *devicePods
	own, rest string // the CPU of a pod that has one to itself, and those of the others
	states    string
	was       []string // the containers and sandboxes of the pods but the static one
	static    []string // and those of the static one, with this agent
	troupe    bool     // it is not the kubelet
	last      string   // the pod that the agent before was given
}

// static is how the name of the static pod begins.
const static = "twenty-static"

// runTwenty makes pods of all kinds that an agent could restart.
func (s *switched) runTwenty(t *testing.T, manifests string) {
	t.Helper()
	b := s.csi
	b.add(t, csiPods{}, "twenty-csi") // seven
	s.devices = s.withDevices(t)
	s.devices.add(t, "twenty-devices", 1)
	b.localDisk(t, "dev", v1.PersistentVolumeBlock)
	b.localDisk(t, "fs", v1.PersistentVolumeFilesystem)
	b.claim(t, "local", t.TempDir())
	b.configMap(t, "app", map[string]string{"key": "one"})
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "app"}, StringData: map[string]string{"password": "p"}}
	check.Value(b.admin.CoreV1().Secrets(b.name).Create(t.Context(), secret, metav1.CreateOptions{}))(t)
	host, sleeps := t.TempDir(), work("sleep")
	mounts := func(source v1.VolumeSource) func(*v1.PodSpec) {
		return func(s *v1.PodSpec) {
			s.Volumes = append(s.Volumes, volume("v", source))
			s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, mounted("v"))
		}
	}
	writes := work("append /v/log x then sleep")
	for name, spec := range map[string]func(*v1.PodSpec){
		"all":   everything,
		"own":   changes(sleeps, func(s *v1.PodSpec) { s.Containers[0].Resources = limits("1", "16Mi") }),
		"dev":   changes(device("dev"), sleeps),
		"fs":    changes(using("fs"), writes),
		"local": changes(using("local"), writes),
		"host":  changes(mounts(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host}}), writes),
		"image": changes(mounts(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: lab.WorkImage}}), sleeps),
		"net":   changes(sleeps, func(s *v1.PodSpec) { s.HostNetwork = true }),
		"init": changes(sleeps, func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{
				{Name: "first", Image: lab.WorkImage, Args: []string{"exit", "0"}},
				{
					Name: "beside", Image: lab.WorkImage, Args: []string{"sleep"},
					RestartPolicy: new(v1.ContainerRestartPolicyAlways),
				},
			}
		}),
		"web": func(s *v1.PodSpec) {
			get := &v1.HTTPGetAction{Port: intstr.FromInt32(8080)}
			probe, c := &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{HTTPGet: get}}, &s.Containers[0]
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = probe, probe, probe
		},
		"crashed": func(s *v1.PodSpec) { // once, and what it has left is counted
			work("turns /v/turn 2 then sleep")(s)
			mounts(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})(s)
		},
	} {
		b.create(t, b.pod("twenty-"+name, spec))
	}
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s}\nspec:\n"+
		"  containers: [{name: app, image: %s, args: [sleep]}]\n", static, b.name, lab.WorkImage)
	check.Fatal(t, os.WriteFile(filepath.Join(manifests, "static.yaml"), []byte(manifest), 0o600))
	t.Cleanup(func() { os.Remove(filepath.Join(manifests, "static.yaml")) }) //nolint:errcheck // it may have gone
	b.await(t, "twenty pods are ready", func() error {
		list := check.Must(b.admin.CoreV1().Pods(b.name).List(t.Context(), metav1.ListOptions{}))
		waits := []string{}
		for i := range list.Items {
			if p := &list.Items[i]; ready(p) != nil {
				waits = append(waits, p.Name+" "+shown(p))
			}
		}
		return errors.Join(check.Is(len(list.Items), 20, "pods"), check.Is(strings.Join(waits, ", "), "", "not ready"))
	})
	s.states = b.states(t, b.Root())
	s.was, s.static = s.containers(t)
	s.held(t, "the kubelet alone")
}

// containers are those of the twenty pods, as the API and the runtime show them. A static pod has another UID with the
// other agent (docs/decisions/0004), and so begins anew.
func (s *switched) containers(t *testing.T) (most, ofStatic []string) {
	t.Helper()
	var out []string
	list := check.Value(s.admin.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{}))(t)
	for i := range list.Items {
		p := &list.Items[i]
		if !strings.HasPrefix(p.Name, "twenty-") {
			continue
		}
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			out = append(out, fmt.Sprintf("%s/%s %s, %d restarts, %v %v",
				p.Name, c.Name, c.ContainerID, c.RestartCount, c.State.Running, c.State.Terminated))
		}
		ip := p.Status.PodIP
		if p.Spec.HostNetwork {
			ip = "" // it is the node's, which a kubelet may find out later
		}
		out = append(out, fmt.Sprintf("%s %s %s since %v", p.Name, p.UID, ip, p.Status.StartTime))
	}
	for _, line := range s.world(t).RunningIDs() {
		if strings.Contains(line, " twenty-") {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	for _, line := range out {
		if strings.Contains(line, static) {
			ofStatic = append(ofStatic, line)
		} else {
			most = append(most, line)
		}
	}
	return most, ofStatic
}

// held fails the test if the twenty pods are not as they were.
func (s *switched) held(t *testing.T, with string) {
	t.Helper()
	most, ofStatic := s.containers(t)
	unlike(t, most, s.was, "with %s, the containers of the pods", with)
	unlike(t, ofStatic, s.static, "with %s, the containers of the static pod", with)
	check.Equal(t, s.csi.states(t, s.Root()), s.states, "with %s, the state of CPUs and memory", with)
	s.devices.hold(t, with)
	s.awaitAllowed(t, "twenty-own", s.own)
	s.awaitAllowed(t, "twenty-web", s.rest)
	list := check.Value(s.admin.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{}))(t)
	for i := range list.Items {
		if err := ready(&list.Items[i]); err != nil {
			t.Errorf("with %s, pod %s: %v", with, list.Items[i].Name, err)
		}
	}
}

// step follows a section of the page. The agent of a version has the node then: it starts a pod, and ends the one that
// the agent before it was given.
func (s *switched) step(t *testing.T, section, version, with string) {
	t.Helper()
	begun := time.Now()
	s.follow(t, section)
	s.awaitNode(t, "is ready with "+version, func(n *v1.Node) error {
		is := n.Status.NodeInfo.KubeletVersion
		return errors.Join(usable(n), check.That(strings.HasSuffix(is, version), "it is of version %s", is))
	})
	took := time.Since(begun)
	t.Logf("%s: ready after %v", with, took.Round(10*time.Millisecond))
	if os.Getenv("TROUPE_MEASURE") != "" {
		check.AtMost(t, took, mostToReady, "from the first command of %q to a node that is ready", section)
	}
	name := "by-" + strconv.Itoa(len(s.ran))
	s.csi.runs(t, name, work("sleep"))
	if s.last != "" {
		s.csi.ends(t, s.last)
	}
	s.last = name
	if troupe := strings.Contains(version, "+troupe."); troupe != s.troupe {
		s.troupe = troupe
		s.awaitStatic(t)
	}
	s.held(t, with)
}

// awaitStatic waits until the static pod has begun anew, and notes what it is now.
func (s *switched) awaitStatic(t *testing.T) {
	t.Helper()
	before := s.static
	s.await(t, "the static pod begins anew", func() error {
		p := check.Must(s.admin.CoreV1().Pods(s.name).Get(t.Context(), static+"-"+s.name, metav1.GetOptions{}))
		_, s.static = s.containers(t)
		same := slices.ContainsFunc(s.static, func(line string) bool { return slices.Contains(before, line) })
		return errors.Join(ready(p), check.Is(same, false, "something of the one before is there"))
	})
}

// mostToReady is how long a package may take to be installed and its agent to have the node ready, on a machine that
// does nothing else.
const mostToReady = 10 * time.Second

// refused installs a release that writes a newer format, and the one before it, which does not start. The newer one
// goes on where it was.
func (s *switched) refused(t *testing.T) {
	t.Helper()
	const install = "apt-get install -y --allow-change-held-packages --allow-downgrades ./troupe_%s-1_amd64.deb"
	s.does(t, fmt.Sprintf(install, "0.37.0"))
	s.awaitNode(t, "has the newest release", func(n *v1.Node) error {
		is := n.Status.NodeInfo.KubeletVersion
		return check.That(strings.HasSuffix(is, "+troupe.0.37.0"), "it is of version %s", is)
	})
	const name = "by-newest"
	s.csi.runs(t, name, work("sleep")) // it is noted
	s.does(t, "systemctl stop kubelet")
	state := s.checkpoints(t)
	newer := []string{}
	for file, text := range state {
		if checkpoint.Newer([]byte(text)) != nil {
			newer = append(newer, file)
		}
	}
	check.AtLeast(t, len(newer), 1, "checkpoints in a newer format")
	s.does(t, fmt.Sprintf(install, "0.36.1"))
	out, err := s.says(t, "systemctl start kubelet")
	check.Fails(t, err, "the older release has started: %s", out)
	check.Deep(t, s.checkpoints(t), state, "the checkpoints after it")
	most, ofStatic := s.containers(t)
	unlike(t, most, s.was, "without an agent, the containers of the pods")
	unlike(t, ofStatic, s.static, "without an agent, the containers of the static pod")
	s.step(t, "When an older release does not start", "+troupe.0.37.0", "the newest release again")
	for _, file := range newer {
		words := filepath.Join(s.Root(), "checkpoints", file) + ": a newer release of troupe wrote it, in format"
		check.Has(t, s.journal(t), words, "what the older release said")
	}
	s.csi.ends(t, name)
}

// unlike fails the test if sorted lines are not those that there were, and says which have gone and which have come.
func unlike(t *testing.T, are, were []string, format string, args ...any) {
	t.Helper()
	without := func(lines, others []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return slices.Contains(others, l) })
	}
	check.None(t, without(were, are), "gone: "+format, args...)
	check.None(t, without(are, were), "new: "+format, args...)
}

// checkpoints are the files of troupe's state, by name.
func (s *switched) checkpoints(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, path := range check.Value(filepath.Glob(filepath.Join(s.Root(), "checkpoints", "*.json")))(t) {
		out[filepath.Base(path)] = string(check.Value(os.ReadFile(path))(t))
	}
	return out
}
