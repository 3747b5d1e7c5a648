package differ

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Images beside those of the lab: one that runs as a user, from a directory of its own, and one that is not there.
const (
	userImage    = "troupe.local/differ/user:v1"
	namedImage   = "troupe.local/differ/named:v1"
	missingImage = "troupe.local/differ/missing:v1"
)

// containerFeatures are which containers a pod has.
var containerFeatures = []feature{
	{"second", 30, func(d *draft) { d.spec.Containers = append(d.spec.Containers, v1.Container{Name: "second"}) }},
	{"third", 8, func(d *draft) { d.spec.Containers = append(d.spec.Containers, v1.Container{Name: "a-third"}) }},
	{"init", 25, func(d *draft) { d.spec.InitContainers = append(d.spec.InitContainers, v1.Container{Name: "init"}) }},
	{"sidecar", 20, func(d *draft) {
		c := v1.Container{Name: "sidecar", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}
		d.spec.InitContainers = append(d.spec.InitContainers, c)
	}},
	{"init-late", 8, func(d *draft) { d.spec.InitContainers = append(d.spec.InitContainers, v1.Container{Name: "init-late"}) }},
	{"ephemeral", 8, func(d *draft) {
		c := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "ephemeral"}}
		if d.flip() {
			c.TargetContainerName = "main"
		}
		if d.flip() {
			d.acts["ephemeral"] = "exit 0"
		}
		d.Ephemeral = append(d.Ephemeral, c)
	}},
	{"image", 6, func(d *draft) { d.pick().Image = one(d, userImage, userImage, namedImage, missingImage) }},
	{"pull-policy", 15, func(d *draft) { d.pick().ImagePullPolicy = one(d, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever) }},
	{"no-pull-missing", 1, func(d *draft) { c := d.pick(); c.Image, c.ImagePullPolicy = missingImage, v1.PullNever }},
	{"working-dir", 10, func(d *draft) { d.pick().WorkingDir = one(d, "/etc", "/made/by/the/runtime", "/proc") }},
	{"command", 8, func(d *draft) { d.pick().Command = []string{one(d, "/work", "work", "/work", "/missing")} }},
	{"terminal", 8, func(d *draft) {
		c := d.pick()
		c.Stdin, c.TTY = true, d.flip()
		c.StdinOnce = !c.TTY && d.flip()
	}},
	{"ports", 12, func(d *draft) {
		d.pickMain().Ports = []v1.ContainerPort{{Name: "http", ContainerPort: 8080}, {ContainerPort: 53, Protocol: v1.ProtocolUDP}}
	}},
	{"expansion", 15, func(d *draft) {
		c := d.pick()
		d.before[c.Name] = "print $(FIRST)-$(MISSING)-$$(FIRST)-$(WEB_SERVICE_PORT)-$"
		c.Env = append(c.Env, v1.EnvVar{Name: "FIRST", Value: "first"}, v1.EnvVar{Name: "SECOND", Value: "$(FIRST)/$(LATER)/$$(FIRST)"},
			v1.EnvVar{Name: "LATER", Value: "later"}, v1.EnvVar{Name: "FIRST", Value: one(d, "again", "$(FIRST)$(FIRST)")})
	}},
	{"resources", 40, func(d *draft) { d.pick().Resources = d.amounts() }},
	{"resources-more", 15, func(d *draft) { d.pick().Resources = d.amounts() }},
	{"guaranteed", 8, func(d *draft) {
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(one(d, "50m", "100m")), v1.ResourceMemory: resource.MustParse("64Mi")}
		d.every(func(c *v1.Container) { c.Resources = v1.ResourceRequirements{Limits: list} })
	}},
	{"pod-resources", 8, func(d *draft) {
		d.spec.Resources = &v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("300m"), v1.ResourceMemory: resource.MustParse("300Mi")},
			Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("700m"), v1.ResourceMemory: resource.MustParse("1Gi")},
		}
	}},
	{"resize-policy", 6, func(d *draft) {
		d.pickMain().ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	}},
	{"message", 15, func(d *draft) {
		c := d.pickMain()
		c.TerminationMessagePath = one(d, "", "/tmp/message", "message")
		c.TerminationMessagePolicy = one(d, v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)
		file := c.TerminationMessagePath
		if file == "" {
			file = "/dev/termination-log"
		}
		d.acts[c.Name] = one(d, "write "+file+" the last words then exit 1", "write "+file+" well then exit 0",
			"print said then exit 2", "warn said then exit 0")
	}},
}

// amounts are resources of a container.
func (d *draft) amounts() (out v1.ResourceRequirements) {
	out.Requests, out.Limits = v1.ResourceList{}, v1.ResourceList{}
	switch d.IntN(4) {
	case 0:
		out.Requests[v1.ResourceCPU] = resource.MustParse(one(d, "1m", "10m", "50m", "0.1"))
	case 1:
		out.Limits[v1.ResourceCPU] = resource.MustParse(one(d, "5m", "200m", "0.3"))
	case 2:
		out.Requests[v1.ResourceCPU] = resource.MustParse("10m")
		out.Limits[v1.ResourceCPU] = resource.MustParse("300m")
	}
	switch d.IntN(4) {
	case 0:
		out.Requests[v1.ResourceMemory] = resource.MustParse(one(d, "16Mi", "100M"))
	case 1:
		out.Limits[v1.ResourceMemory] = resource.MustParse(one(d, "64Mi", "100000000"))
	case 2:
		out.Requests[v1.ResourceMemory] = resource.MustParse("32Mi")
		out.Limits[v1.ResourceMemory] = resource.MustParse("128Mi")
	}
	if d.IntN(5) == 0 {
		out.Limits[v1.ResourceEphemeralStorage] = resource.MustParse("100Mi")
	}
	return out
}

// lifeFeatures are how containers live and end.
var lifeFeatures = []feature{
	{"policy", 45, func(d *draft) {
		d.spec.RestartPolicy = one(d, v1.RestartPolicyNever, v1.RestartPolicyOnFailure, v1.RestartPolicyAlways)
	}},
	{"ends", 30, func(d *draft) {
		d.acts[d.pick().Name] = one(d, "exit 0", "exit 3", "sleep 1s then exit 0", "sleep 700ms then exit 1", "exit 0")
	}},
	{"ends-too", 10, func(d *draft) { d.acts[d.pickMain().Name] = one(d, "sleep 500ms then exit 0", "exit 7") }},
	{"stops", 12, func(d *draft) {
		d.acts[d.pickLong().Name] = one(d, "ignore", "trap then exit 0", "trap 500ms then exit 4")
	}},
	{"grace", 10, func(d *draft) { d.spec.TerminationGracePeriodSeconds = new(one[int64](d, 0, 1, 4)) }},
	{"deadline", 4, func(d *draft) {
		// By then the containers run, on a busy machine too.
		d.spec.ActiveDeadlineSeconds = new(one[int64](d, 8, 12))
		d.Watch = time.Duration(*d.spec.ActiveDeadlineSeconds+4) * time.Second
	}},
	{"startup", 8, func(d *draft) { d.probe(func(c *v1.Container, p *v1.Probe) { c.StartupProbe = p }, 3) }},
	{"readiness", 20, func(d *draft) { d.probe(func(c *v1.Container, p *v1.Probe) { c.ReadinessProbe = p }, 3) }},
	{"liveness", 10, func(d *draft) {
		d.probe(func(c *v1.Container, p *v1.Probe) {
			c.LivenessProbe = p
			if d.IntN(4) == 0 {
				p.TerminationGracePeriodSeconds = new(int64(1))
			}
		}, 6)
	}},
	{"post-start", 8, func(d *draft) { d.lifecycle().PostStart = d.hook(5) }},
	{"pre-stop", 10, func(d *draft) { d.lifecycle().PreStop = d.hook(3) }},
	{"readiness-gate", 4, func(d *draft) { d.spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/gate"}} }},
	{"restart-rule", 4, func(d *draft) {
		c := d.pickMain()
		c.RestartPolicy = new(one(d, v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyOnFailure))
		c.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action:    v1.ContainerRestartRuleActionRestart,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{3}},
		}}
		d.acts[c.Name] = one(d, "exit 3", "exit 4", "exit 0")
	}},
}

// probe gives a container a probe. One of bad of them fails.
func (d *draft) probe(set func(*v1.Container, *v1.Probe), bad int) {
	c := d.pickLong()
	well := d.IntN(bad) > 0
	p := &v1.Probe{PeriodSeconds: 1, FailureThreshold: 2, TimeoutSeconds: 1}
	port := serverPort(c.Name)
	pick := func(good, not string) string {
		if well {
			return good
		}
		return not
	}
	switch d.IntN(3) {
	case 0:
		p.Exec = &v1.ExecAction{Command: []string{"/work", "exit", pick("0", "1")}}
	case 1:
		d.acts[c.Name] = fmt.Sprintf("serve %d", port)
		p.HTTPGet = &v1.HTTPGetAction{Path: pick("/ok", "/bad"), Port: intstr.FromInt32(port)}
		if d.flip() {
			p.HTTPGet.HTTPHeaders = []v1.HTTPHeader{{Name: "X-Differ", Value: "yes"}}
		}
	default:
		d.acts[c.Name] = fmt.Sprintf("serve %d", port)
		if !well {
			port += 100
		}
		p.TCPSocket = &v1.TCPSocketAction{Port: intstr.FromInt32(port)}
	}
	if d.IntN(3) == 0 {
		p.InitialDelaySeconds = 1
	}
	set(c, p)
}

// serverPort is the port of a container's server: those of a pod share their addresses.
func serverPort(container string) int32 {
	for i, name := range []string{"main", "second", "a-third", "sidecar"} {
		if name == container {
			return 7001 + int32(i)
		}
	}
	return 7010
}

func (d *draft) lifecycle() *v1.Lifecycle {
	c := d.pickLong()
	if c.Lifecycle == nil {
		c.Lifecycle = &v1.Lifecycle{}
	}
	return c.Lifecycle
}

// hook is a hook. One of bad of them fails.
func (d *draft) hook(bad int) *v1.LifecycleHandler {
	if d.IntN(bad) == 0 {
		return one(d, &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/work", "exit", "5"}}},
			&v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(9)}})
	}
	return one(d, &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/work", "print", "hooked"}}},
		&v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}})
}
