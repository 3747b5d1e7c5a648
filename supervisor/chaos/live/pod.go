package live

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

const (
	// firstPort is what the probes of the first container ask. Those of a pod share its network,
	// so each has a port of its own.
	firstPort = 8080
	// stateVolume has what a container remembers over its restarts.
	stateVolume = "chaos-state"
	stateDir    = "/chaos-state"
	// memoryLimit is of containers that are to be killed for want of memory.
	memoryLimit = "32Mi"
)

// pod gives the pod that an operation makes, with real containers. oom are the containers that
// are to be killed for want of memory.
func (c *Config) pod(o *plan.Op, namespace string, oom []plan.Role) (*v1.Pod, error) {
	s, err := plan.ShapeOf(o)
	if err != nil {
		return nil, err
	}
	words := map[string]map[string]string{}
	for key, value := range s.Pod.Annotations {
		name, word, _ := strings.Cut(strings.TrimPrefix(key, simcri.AnnotationPrefix), ".")
		if words[name] == nil {
			words[name] = map[string]string{}
		}
		words[name][word] = value
	}
	p := s.Pod
	p.Namespace, p.Annotations = namespace, nil
	p.Spec.AutomountServiceAccountToken = new(bool)
	p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	if o.Verb == plan.Create {
		p.Spec.NodeName = c.Node
	}
	port := int32(firstPort)
	for container := range podspec.All(&p.Spec) {
		if err := c.container(p, container, words[container.Name], port); err != nil {
			return nil, fmt.Errorf("container %s: %w", container.Name, err)
		}
		if slices.Contains(oom, plan.Role{Pod: o.Role.Pod, Container: container.Name}) {
			limit(container)
		}
		port++
	}
	return p, nil
}

func limit(c *v1.Container) {
	c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memoryLimit)}
}

// container makes a container real: its image, what it does, and what its probes ask.
func (c *Config) container(p *v1.Pod, of *v1.Container, words map[string]string, port int32) error {
	of.Image, of.ImagePullPolicy = c.Image, v1.PullIfNotPresent
	probes := false
	for kind, probe := range map[string]*v1.Probe{
		"ready": of.ReadinessProbe, "live": of.LivenessProbe, "startup": of.StartupProbe,
	} {
		if probe != nil && probe.HTTPGet != nil {
			// Probes of one container may share what they ask in the shape.
			own := *probe
			own.HTTPGet = &v1.HTTPGetAction{Path: "/" + kind, Port: intstr.FromInt32(port)}
			switch kind {
			case "ready":
				of.ReadinessProbe = &own
			case "live":
				of.LivenessProbe = &own
			default:
				of.StartupProbe = &own
			}
			probes = true
		}
	}
	text, err := script(words, port, probes)
	if err != nil {
		return err
	}
	of.Command = []string{"busybox", "sh", "-c", text}
	if words["oom-after"] != "" {
		limit(of)
	}
	if words["crash-loop"] == "" {
		return nil
	}
	of.VolumeMounts = append(of.VolumeMounts, v1.VolumeMount{Name: stateVolume, MountPath: stateDir, SubPath: of.Name})
	if !slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Name == stateVolume }) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{
			Name: stateVolume, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
		})
	}
	return nil
}

// endCommand makes the main process of a container end with a code, oomCommand be killed for want
// of memory. They send their signal until they end with the container: the main process may not have set its traps yet.
func endCommand(code string) []string {
	return []string{"busybox", "sh", "-c", "echo " + code + " > /chaos-end; " + signalled("USR1")}
}

var oomCommand = []string{"busybox", "sh", "-c", signalled("USR2")}

func signalled(signal string) string {
	return "while kill -" + signal + " 1; do busybox sleep 0.2; done"
}

// script is what a container does, as text for sh.
func script(words map[string]string, port int32, probes bool) (string, error) {
	var b strings.Builder
	seconds := map[string]string{}
	for word, value := range words {
		switch word {
		case "run-for", "term-delay", "oom-after", "startup-time", "ready-after", "unhealthy-after":
			d, err := time.ParseDuration(value)
			if err != nil {
				return "", fmt.Errorf("live runs need one duration for %s: %w", word, err)
			}
			seconds[word] = strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
		case "exit-code", "term-exit-code", "ignore-term", "crash-loop":
		default:
			return "", fmt.Errorf("this case needs %s, which is not possible on a real node", word)
		}
	}
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch {
	case words["ignore-term"] == "true":
		line("trap '' TERM")
	case seconds["term-delay"] != "":
		line("trap 'busybox sleep %s; exit %s' TERM", seconds["term-delay"], cmp.Or(words["term-exit-code"], "143"))
	default:
		line("trap 'exit %s' TERM", cmp.Or(words["term-exit-code"], "143"))
	}
	line("trap 'exit $(busybox cat /chaos-end)' USR1")
	line("trap 'trap \"\" USR2; x=0123456789abcdef; while :; do x=$x$x; done' USR2")
	if probes {
		serve(line, seconds, port)
	}
	if after := seconds["oom-after"]; after != "" {
		line("(busybox sleep %s; kill -USR2 1) &", after)
	}
	life := "busybox sleep " + cmp.Or(seconds["run-for"], "0") + " & wait $!; exit "
	crash := life + nonZero(words["exit-code"])
	switch n := words["crash-loop"]; {
	case n == "true":
		line("%s", crash)
		return b.String(), nil
	case n != "" && n != "false":
		line("n=$(busybox cat %[1]s/n 2>/dev/null || echo 0); echo $((n+1)) > %[1]s/n", stateDir)
		line("if [ $n -lt %s ]; then %s; fi", n, crash)
	case words["run-for"] != "" || words["exit-code"] != "":
		line("%s", life+cmp.Or(words["exit-code"], "0"))
		return b.String(), nil
	}
	line("while :; do busybox sleep 100000 & wait $!; done")
	return b.String(), nil
}

// serve answers probes as the words say.
func serve(line func(string, ...any), seconds map[string]string, port int32) {
	line("busybox mkdir -p /chaos-www; echo ok > /chaos-www/live; echo ok > /chaos-www/startup")
	if after := seconds["ready-after"]; after != "" {
		line("(busybox sleep %s; echo ok > /chaos-www/ready) &", after)
	} else {
		line("echo ok > /chaos-www/ready")
	}
	start := "exec busybox httpd -f -p " + strconv.Itoa(int(port)) + " -h /chaos-www"
	if after := seconds["startup-time"]; after != "" {
		start = "busybox sleep " + after + "; " + start
	}
	line("(%s) & httpd=$!", start)
	if after := seconds["unhealthy-after"]; after != "" {
		line("(busybox sleep %s; kill $httpd) &", after)
	}
}

// nonZero is the code of a crash: 1 where none is given that says so.
func nonZero(code string) string {
	if code == "" || code == "0" {
		return "1"
	}
	return code
}
