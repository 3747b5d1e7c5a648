package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
)

// CheckpointConfig configures checkpoints of containers.
type CheckpointConfig struct {
	Find    Find
	Runtime port.Checkpointer
	// Dir is the directory of the archives, made if it is missing: <root-dir>/checkpoints.
	Dir string
	// Now is the time for the archives' names.
	Now func() time.Time
}

// CheckpointRoute is /checkpoint/: it writes an archive of a running container, for forensics
// (Kubernetes' kubelet checkpoint API). The answer names the file. The query timeout is in whole
// seconds; without support in the runtime the answer is 500.
func CheckpointRoute(c CheckpointConfig) Route {
	return Route{Path: "/checkpoint/{namespace}/{pod}/{container}", Methods: []string{http.MethodPost},
		Subresources: Checkpoint, Long: true,
		Handler: http.HandlerFunc(c.serve)}
}

func (c CheckpointConfig) serve(w http.ResponseWriter, r *http.Request) {
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	timeout, err := checkpointTimeout(r.URL.Query()["timeout"])
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod := c.Find.newest(w, r, namespace, name)
	if pod == nil {
		return
	}
	if !hasContainer(pod, container) {
		http.Error(w, fmt.Sprintf("container %q does not exist in pod %q", container, name), http.StatusNotFound)
		return
	}
	wrong := func(why any) {
		http.Error(w, fmt.Sprintf("checkpointing of %s/%s/%s failed (%v)", namespace, name, container, why),
			http.StatusInternalServerError)
	}
	s := statusOf(pod, container)
	if s == nil || !podspec.Lives(&pod.Spec, s) {
		wrong("the container is not running")
		return
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		wrong(err)
		return
	}
	_, id, _ := strings.Cut(s.ContainerID, "://")
	to := port.CheckpointContainer{
		ContainerID: id, Timeout: timeout,
		Location: filepath.Join(c.Dir,
			fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", name, namespace, container, c.Now().Format(time.RFC3339))),
	}
	_, err = answer.Of(r.Context(), func(done func(struct{}, error)) {
		// A client that disconnects must not leave half an archive.
		c.Runtime.CheckpointContainer(context.WithoutCancel(r.Context()), to, func(err error) { done(struct{}{}, err) })
	})
	if e, ok := errors.AsType[*port.Error](err); ok && e.Detail != "" { // the runtime's words, as programs match them
		wrong(e.Detail)
		return
	}
	if err != nil {
		wrong(err)
		return
	}
	writeJSON(w, map[string][]string{"items": {to.Location}})
}

// checkpointTimeout uses the last value, as the kubelet does.
func checkpointTimeout(given []string) (time.Duration, error) {
	if len(given) == 0 {
		return 0, nil
	}
	last := given[len(given)-1]
	n, err := strconv.ParseInt(last, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("timeout %q: want whole seconds, 0 or more", last)
	}
	return time.Duration(n) * time.Second, nil
}
