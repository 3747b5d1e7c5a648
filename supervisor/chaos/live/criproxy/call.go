package criproxy

import (
	"path"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Labels by which agents mark what is whose.
const (
	labelPodName      = "io.kubernetes.pod.name"
	labelPodNamespace = "io.kubernetes.pod.namespace"
	labelPodUID       = "io.kubernetes.pod.uid"
)

// Call is one call as far as it could be read. What a call does not name, and what is not known
// of the ID it names, is empty.
type Call struct {
	Method       string // RunPodSandbox
	PodNamespace string
	PodName      string
	PodUID       string
	SandboxID    string
	ContainerID  string
	Container    string // its name
	Image        string
	// Request is the message, nil if its type is not known here.
	Request proto.Message
}

// OfPod matches the calls that are about one pod. A static pod's name ends in that of its node,
// which need not be given.
func OfPod(name string) func(Call) bool {
	return func(c Call) bool { return c.PodName == name || strings.HasPrefix(c.PodName, name+"-") }
}

// OfImage matches the calls that are about one image.
func OfImage(image string) func(Call) bool {
	return func(c Call) bool { return c.Image == image }
}

type podName struct{ namespace, name, uid string }

type containerName struct{ name, sandbox string }

// names is what was read from answers: whose an ID is. An entry is some hundred bytes and is never
// removed: a proxy lives for some thousand pods.
type names struct {
	mu         sync.Mutex
	pods       map[string]podName // by sandbox ID
	containers map[string]containerName
}

func newNames() *names {
	return &names{pods: map[string]podName{}, containers: map[string]containerName{}}
}

// method finds the types of a method's messages, nil if it is not known here.
func method(fullMethod string) protoreflect.MethodDescriptor {
	name := strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil
	}
	m, _ := found.(protoreflect.MethodDescriptor)
	return m
}

func decode(kind protoreflect.MessageDescriptor, bytes []byte) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(kind.FullName())
	if err != nil {
		return nil
	}
	message := t.New().Interface()
	if proto.Unmarshal(bytes, message) != nil {
		return nil
	}
	return message
}

// read makes a Call of a request.
func (n *names) read(fullMethod string, request []byte) Call {
	c := Call{Method: path.Base(fullMethod)}
	m := method(fullMethod)
	if m == nil {
		return c
	}
	c.Request = decode(m.Input(), request)
	var pod podName
	switch r := c.Request.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		pod = nameOf(r.GetConfig())
	case *runtimeapi.CreateContainerRequest:
		c.SandboxID = r.GetPodSandboxId()
		c.Container = r.GetConfig().GetMetadata().GetName()
		c.Image = r.GetConfig().GetImage().GetImage()
		pod = nameOf(r.GetSandboxConfig())
	case *runtimeapi.PullImageRequest:
		c.Image = r.GetImage().GetImage()
		pod = nameOf(r.GetSandboxConfig())
	case *runtimeapi.ListPodSandboxRequest:
		c.SandboxID = r.GetFilter().GetId()
		pod = podName{uid: r.GetFilter().GetLabelSelector()[labelPodUID]}
	case *runtimeapi.ListContainersRequest:
		c.SandboxID, c.ContainerID = r.GetFilter().GetPodSandboxId(), r.GetFilter().GetId()
		pod = podName{uid: r.GetFilter().GetLabelSelector()[labelPodUID]}
	case interface{ GetContainerId() string }:
		c.ContainerID = r.GetContainerId()
	case interface{ GetPodSandboxId() string }:
		c.SandboxID = r.GetPodSandboxId()
	case interface {
		GetImage() *runtimeapi.ImageSpec
	}:
		c.Image = r.GetImage().GetImage()
	}
	n.complete(&c, pod)
	return c
}

func nameOf(config *runtimeapi.PodSandboxConfig) podName {
	m := config.GetMetadata()
	return podName{m.GetNamespace(), m.GetName(), m.GetUid()}
}

// complete adds what is known of the IDs.
func (n *names) complete(c *Call, pod podName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.containers[c.ContainerID]; ok {
		c.Container, c.SandboxID = known.name, known.sandbox
	}
	if known, ok := n.pods[c.SandboxID]; ok && pod.name == "" {
		pod = known
	}
	if pod.name == "" && pod.uid != "" {
		for _, known := range n.pods {
			if known.uid == pod.uid {
				pod = known
			}
		}
	}
	c.PodNamespace, c.PodName, c.PodUID = pod.namespace, pod.name, pod.uid
}

// learn reads the answers that give out IDs.
func (n *names) learn(fullMethod string, c Call, answer []byte) {
	switch c.Method {
	case "RunPodSandbox", "CreateContainer", "ListPodSandbox", "ListContainers":
	default:
		return
	}
	m := method(fullMethod)
	if m == nil {
		return
	}
	message := decode(m.Output(), answer)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch r := message.(type) {
	case *runtimeapi.RunPodSandboxResponse:
		n.pods[r.GetPodSandboxId()] = podName{c.PodNamespace, c.PodName, c.PodUID}
	case *runtimeapi.CreateContainerResponse:
		n.containers[r.GetContainerId()] = containerName{c.Container, c.SandboxID}
	case *runtimeapi.ListPodSandboxResponse:
		for _, s := range r.GetItems() {
			m := s.GetMetadata()
			n.pods[s.GetId()] = podName{m.GetNamespace(), m.GetName(), m.GetUid()}
		}
	case *runtimeapi.ListContainersResponse:
		for _, item := range r.GetContainers() {
			n.containers[item.GetId()] = containerName{item.GetMetadata().GetName(), item.GetPodSandboxId()}
			if _, known := n.pods[item.GetPodSandboxId()]; !known {
				l := item.GetLabels()
				n.pods[item.GetPodSandboxId()] = podName{l[labelPodNamespace], l[labelPodName], l[labelPodUID]}
			}
		}
	}
}
