package streams

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port/answer"
)

// candidate is a pod of the name that was asked for, and what the runtime has of it.
type candidate struct {
	pod *v1.Pod
	ran observed.Pod
}

// candidates are the pods that a request may mean, the newest first: at least one. The runtime is
// asked again for each: what runs is what it says, and not what was told of it a moment ago.
func (s *Streams) candidates(r *http.Request) ([]candidate, error) {
	ctx, namespace, name, uid := r.Context(), r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("uid")
	pods, err := s.config.Pods(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		return nil, errNoPod
	}
	var out []candidate
	for _, p := range pods {
		if uid != "" && uid != string(p.UID) && !podspec.Static(p) {
			continue
		}
		ran, err := s.list(ctx, string(p.UID))
		if err != nil {
			return nil, err
		}
		out = append(out, candidate{p, ran})
	}
	if len(out) == 0 {
		return nil, errOtherID
	}
	return out, nil
}

func (s *Streams) list(ctx context.Context, uid string) (observed.Pod, error) {
	found, err := answer.Of(ctx, func(done func(observed.Runtime, error)) { s.config.Runtime.List(ctx, uid, done) })
	for _, p := range found.Pods {
		if string(p.Ref.UID) == uid {
			return p.Pod, err
		}
	}
	return observed.Pod{}, err
}

// container is the running container that a request means, and whether it has a terminal.
func (s *Streams) container(r *http.Request) (id string, tty bool, err error) {
	name := r.PathValue("container")
	all, err := s.candidates(r)
	if err != nil && !errors.Is(err, errOtherID) {
		return "", false, err
	}
	for _, c := range all {
		i := slices.IndexFunc(c.ran.Containers, func(c observed.Container) bool {
			return c.Name == name && c.State == observed.ContainerRunning
		})
		if i >= 0 {
			spec, _ := podspec.Find(&c.pod.Spec, name)
			return c.ran.Containers[i].ID, spec != nil && spec.TTY, nil
		}
	}
	return "", false, noContainer(name)
}

// sandbox is the sandbox of the pod that a request means.
func (s *Streams) sandbox(r *http.Request) (string, error) {
	all, err := s.candidates(r)
	if err != nil {
		return "", err
	}
	for _, c := range all {
		if sb, ok := c.ran.ReadySandbox(); ok {
			return sb.ID, nil
		}
	}
	return "", &refusal{
		http.StatusInternalServerError, fmt.Sprintf("pod not found (%q)", r.PathValue("pod")+"_"+r.PathValue("namespace")),
	}
}
