package differ

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// recorder keeps the requests that a proxy passes on, by the pod's UID.
type recorder struct {
	mu    sync.Mutex
	calls map[string][]criproxy.Call
}

// look is for [criproxy.Config.Fault]: it sees each call and does no harm.
func (r *recorder) look(c criproxy.Call) *criproxy.Fault {
	switch c.Request.(type) {
	case *runtimeapi.RunPodSandboxRequest, *runtimeapi.StopPodSandboxRequest, *runtimeapi.CreateContainerRequest,
		*runtimeapi.StartContainerRequest, *runtimeapi.StopContainerRequest, *runtimeapi.ExecSyncRequest,
		*runtimeapi.UpdateContainerResourcesRequest, *runtimeapi.UpdatePodSandboxResourcesRequest, *runtimeapi.PullImageRequest:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls[c.PodUID] = append(r.calls[c.PodUID], c)
	}
	return nil
}

// stopSoon is how long a sandbox may take to be stopped when its pod is gone.
const stopSoon = 5 * time.Second

// await waits until a sandbox that was made is stopped: the object of a pod without a grace period is gone before that.
func (r *recorder) await(ctx context.Context, p *v1.Pod) {
	_ = lab.Eventually(ctx, stopSoon, "the sandbox is stopped", func() error { // not at all is a difference
		r.mu.Lock()
		defer r.mu.Unlock()
		asked := func(of any) bool {
			return slices.ContainsFunc(r.calls[string(p.UID)], func(c criproxy.Call) bool { return reflect.TypeOf(c.Request) == reflect.TypeOf(of) })
		}
		return check.That(!asked(&runtimeapi.RunPodSandboxRequest{}) || asked(&runtimeapi.StopPodSandboxRequest{}), "it is not")
	})
}

// keys are what the runtime was asked for a pod.
func (r *recorder) keys(p *v1.Pod, k keys) error {
	r.mu.Lock()
	calls := slices.Clone(r.calls[string(p.UID)])
	r.mu.Unlock()
	var sandbox *runtimeapi.PodSandboxConfig
	var inits []string
	sandboxes := 0
	stops := map[string][]string{}
	for _, c := range calls {
		switch m := c.Request.(type) {
		case *runtimeapi.RunPodSandboxRequest:
			if sandboxes++; sandboxes > 1 {
				continue
			}
			sandbox = m.Config
			k["cri/sandbox"] = "asked for"
			if err := k.request("cri/sandbox", m); err != nil {
				return err
			}
		case *runtimeapi.CreateContainerRequest:
			attempt := m.GetConfig().GetMetadata().GetAttempt()
			at := fmt.Sprintf("cri/create/%s/%d", c.Container, attempt)
			if _, twice := k[at]; twice || attempt > 1 {
				continue
			}
			k[at] = "asked for"
			if err := k.request(at, m.Config); err != nil {
				return err
			}
			if err := k.other(at+"/of-sandbox", sandbox, m.SandboxConfig); err != nil {
				return err
			}
		case *runtimeapi.StartContainerRequest:
			if isPlain(p, c.Container) && !slices.Contains(inits, c.Container) {
				inits = append(inits, c.Container)
			}
		case *runtimeapi.StopContainerRequest:
			if t := fmt.Sprint(m.Timeout); !slices.Contains(stops[c.Container], t) {
				stops[c.Container] = append(stops[c.Container], t)
			}
		case *runtimeapi.StopPodSandboxRequest:
			k["cri/stop-sandbox"] = "asked for"
		case *runtimeapi.ExecSyncRequest:
			k[fmt.Sprintf("cri/exec/%s/%s", c.Container, strings.Join(m.Cmd, " "))] = fmt.Sprint(m.Timeout)
		case *runtimeapi.PullImageRequest:
			k["cri/pull/"+c.Image] = fmt.Sprint("with a credential: ", m.Auth != nil)
		case *runtimeapi.UpdateContainerResourcesRequest:
			if err := k.request("cri/update/"+c.Container, m.Linux); err != nil {
				return err
			}
		case *runtimeapi.UpdatePodSandboxResourcesRequest:
			if err := k.request("cri/update-sandbox", m); err != nil {
				return err
			}
		}
	}
	k["cri/sandboxes"] = fmt.Sprint(sandboxes)
	k["cri/inits"] = strings.Join(inits, ", ")
	for container, timeouts := range stops {
		k["cri/stop/"+container] = strings.Join(timeouts, ", ")
	}
	return nil
}

// ofVariable is the value of a variable, which is bytes in the CRI.
var ofVariable = regexp.MustCompile(`/envs\[[^/]*\]/value`)

// ofUsers is where the users of a pod's own begin on the node.
var ofUsers = regexp.MustCompile(`([ug]idMappings|[ug]ids)\[0\]/hostId$`)

// usersEach is how many a pod has.
const usersEach = 65536

// request adds what the runtime was asked for.
func (k keys) request(path string, m proto.Message) error {
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	of := keys{}
	if err := of.addJSON(path, text); err != nil {
		return err
	}
	for at, value := range of {
		if ofVariable.MatchString(at) {
			if plain, err := base64.StdEncoding.DecodeString(value); err == nil {
				value = string(plain)
			}
		}
		// A kubelet takes any block that is free.
		first, err := strconv.ParseFloat(value, 64)
		if ofUsers.MatchString(at) && err == nil && first > 0 && math.Mod(first, usersEach) == 0 {
			value = "a block"
		}
		k[at] = value
	}
	return nil
}

// other adds in what a container's sandbox is described otherwise than it was made.
func (k keys) other(path string, made, told proto.Message) error {
	a, b := keys{}, keys{}
	if err := errors.Join(a.request(path, made), b.request(path, told)); err != nil {
		return err
	}
	for _, d := range compare(a, b) {
		k[d.Key] = d.Kubelet + " was made, " + d.Troupe + " is told"
	}
	return nil
}

// isPlain says whether a container is an init container that has to end.
func isPlain(p *v1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c v1.Container) bool { return c.Name == name && c.RestartPolicy == nil })
}
