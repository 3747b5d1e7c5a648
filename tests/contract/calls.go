package contract

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// containerName is the name of the one container of the suite's pods.
const containerName = "main"

// pod gives a pod of its own, with one container that runs p, and removes what
// the runtime has of it when the test is over.
func (s *suite) pod(p Program) *v1.Pod {
	s.Helper()
	uid := make([]byte, 16)
	check.Value(rand.Read(uid))(s)
	grace := int64(7)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "contract", Name: fmt.Sprintf("c-%x", uid[:4]),
			UID:    types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", uid[:4], uid[4:6], uid[6:8], uid[8:10], uid[10:])),
			Labels: map[string]string{"app": "contract"},
			Annotations: map[string]string{
				podspec.AnnotationSource: string(podspec.File),
			},
		},
		Spec: v1.PodSpec{
			DNSPolicy: v1.DNSDefault, RestartPolicy: v1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{{
				Name: containerName, Image: p.Image, Command: p.Command, Args: p.Args,
				TerminationMessagePolicy: v1.TerminationMessageReadFile,
				Lifecycle:                &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3}}},
			}},
		},
	}
	for k, v := range p.Annotations {
		pod.Annotations[k] = v
	}
	s.Cleanup(func() { s.cleanUp(pod) })
	return pod
}

// cleanUp removes all sandboxes of a pod.
func (s *suite) cleanUp(pod *v1.Pod) {
	for _, of := range s.list(string(pod.UID)).Pods {
		for _, box := range of.Sandboxes {
			s.stopSandbox(box.ID).noError()
			s.removeSandbox(box.ID).noError()
		}
	}
}

// image sees to it that an image is there.
func (s *suite) image(name string) observed.Image {
	s.Helper()
	if found := s.imageStatus(name).noError(); found != nil {
		return *found
	}
	s.pull(name).noError()
	found := s.imageStatus(name).noError()
	if found == nil {
		s.Fatalf("image %s was pulled and is not there", name)
	}
	return *found
}

// sandbox runs a sandbox for a pod.
func (s *suite) sandbox(pod *v1.Pod) string {
	s.Helper()
	return s.run(pod, 0).noError()
}

// created runs a sandbox for p and creates its container.
func (s *suite) created(p Program) (pod *v1.Pod, sandbox, id string) {
	s.Helper()
	pod = s.pod(p)
	sandbox = s.sandbox(pod)
	return pod, sandbox, s.create(pod, sandbox, 0).noError()
}

// running runs p in a pod of its own and waits until it is ready.
func (s *suite) running(p Program) (pod *v1.Pod, sandbox, id string) {
	s.Helper()
	pod, sandbox, id = s.created(p)
	s.start(id).noError()
	if p.Ready != nil {
		s.until("the program in container "+id+" is ready", func() bool {
			return s.exec(id, p.Ready, 20*time.Second).noError().ExitCode == 0
		})
	}
	return pod, sandbox, id
}

// exited waits until a container has ended.
func (s *suite) exited(id string) observed.Container {
	s.Helper()
	var c observed.Container
	s.until("container "+id+" ends", func() bool {
		c = s.status(id).noError()
		return c.State == observed.ContainerExited
	})
	return c
}

func (s *suite) run(pod *v1.Pod, attempt uint32) *pending[string] {
	return s.runCtx(context.Background(), pod, attempt)
}

func (s *suite) runCtx(ctx context.Context, pod *v1.Pod, attempt uint32) *pending[string] {
	return begin(s, "RunPodSandbox", func(done func(string, error)) {
		s.Runtime.RunPodSandbox(ctx, port.RunPodSandbox{Pod: pod, Attempt: attempt}, done)
	})
}

func (s *suite) stopSandbox(id string) *pending[struct{}] {
	return beginErr(s, "StopPodSandbox", func(done func(error)) {
		s.Runtime.StopPodSandbox(context.Background(), id, done)
	})
}

func (s *suite) removeSandbox(id string) *pending[struct{}] {
	return beginErr(s, "RemovePodSandbox", func(done func(error)) {
		s.Runtime.RemovePodSandbox(context.Background(), id, done)
	})
}

func (s *suite) sandboxStatus(id string) *pending[observed.Sandbox] {
	return begin(s, "PodSandboxStatus", func(done func(observed.Sandbox, error)) {
		s.Runtime.PodSandboxStatus(context.Background(), id, done)
	})
}

// create makes the container of a pod, its image first if it is not there.
func (s *suite) create(pod *v1.Pod, sandbox string, attempt uint32) *pending[string] {
	s.Helper()
	img := s.image(pod.Spec.Containers[0].Image)
	return s.createFrom(img, pod, sandbox, attempt)
}

func (s *suite) createFrom(img observed.Image, pod *v1.Pod, sandbox string, attempt uint32) *pending[string] {
	return begin(s, "CreateContainer", func(done func(string, error)) {
		s.Runtime.CreateContainer(context.Background(), port.CreateContainer{
			Pod: pod, Container: &pod.Spec.Containers[0], Attempt: attempt, SandboxID: sandbox,
			ImageRef: img.ID, Image: img, SpecHash: specHash,
			LogDirectory: s.LogDirectory(pod.Namespace, pod.Name, string(pod.UID)),
		}, done)
	})
}

// specHash is what the suite's containers are said to be made from.
const specHash = "contract-5f1e"

func (s *suite) start(id string) *pending[struct{}] {
	return beginErr(s, "StartContainer", func(done func(error)) {
		s.Runtime.StartContainer(context.Background(), id, done)
	})
}

func (s *suite) stop(id string, grace time.Duration) *pending[struct{}] {
	return s.stopCtx(context.Background(), id, grace)
}

func (s *suite) stopCtx(ctx context.Context, id string, grace time.Duration) *pending[struct{}] {
	return beginErr(s, "StopContainer", func(done func(error)) {
		s.Runtime.StopContainer(ctx, id, grace, done)
	})
}

func (s *suite) remove(id string) *pending[struct{}] {
	return beginErr(s, "RemoveContainer", func(done func(error)) {
		s.Runtime.RemoveContainer(context.Background(), id, done)
	})
}

func (s *suite) status(id string) *pending[observed.Container] {
	return begin(s, "ContainerStatus", func(done func(observed.Container, error)) {
		s.Runtime.ContainerStatus(context.Background(), id, done)
	})
}

func (s *suite) exec(id string, command []string, timeout time.Duration) *pending[port.ExecResult] {
	return begin(s, "ExecSync", func(done func(port.ExecResult, error)) {
		s.Runtime.ExecSync(context.Background(), id, port.Words(command...), timeout, done)
	})
}

func (s *suite) list(uid string) observed.Runtime {
	s.Helper()
	return begin(s, "List", func(done func(observed.Runtime, error)) {
		s.Runtime.List(context.Background(), uid, done)
	}).noError()
}

func (s *suite) pull(image string) *pending[string] {
	return begin(s, "PullImage", func(done func(string, error)) {
		s.Runtime.PullImage(context.Background(), port.PullImage{Image: image}, done)
	})
}

// imageStatus gives nil for an image that is not there.
func (s *suite) imageStatus(image string) *pending[*observed.Image] {
	return begin(s, "ImageStatus", func(done func(*observed.Image, error)) {
		s.Runtime.ImageStatus(context.Background(), image, func(img observed.Image, ok bool, err error) {
			if !ok {
				done(nil, err)
				return
			}
			done(&img, err)
		})
	})
}

func (s *suite) listImages() []observed.Image {
	s.Helper()
	return begin(s, "ListImages", func(done func([]observed.Image, error)) {
		s.Runtime.ListImages(context.Background(), done)
	}).noError()
}

func (s *suite) removeImage(image string) *pending[struct{}] {
	return beginErr(s, "RemoveImage", func(done func(error)) {
		s.Runtime.RemoveImage(context.Background(), image, done)
	})
}
