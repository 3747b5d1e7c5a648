package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/supervisor/serve/crilog"
	"github.com/troupe-dev/troupe/supervisor/serve/nodelog"
)

// LogsConfig configures the reading of container logs.
type LogsConfig struct {
	Find    Find
	Runtime port.Runtime
	// SplitStreams lets clients read only stdout or stderr (feature gate
	// PodLogsQuerySplitStreams).
	SplitStreams bool
	// Watcher is shared by all requests that follow a log.
	Watcher *crilog.Watcher
}

// ContainerLogsRoute is /containerLogs/, for `kubectl logs`.
func ContainerLogsRoute(c LogsConfig) Route {
	return Route{Path: "/containerLogs/{namespace}/{pod}/{container}", Methods: []string{http.MethodGet},
		Subresources: Proxy, Long: true,
		Handler: http.HandlerFunc(c.serve)}
}

func (c LogsConfig) serve(w http.ResponseWriter, r *http.Request) {
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	wish, err := parseLogOptions(r.URL.Query())
	if err != nil {
		http.Error(w, `{"message": "Unable to decode query."}`, http.StatusBadRequest)
		return
	}
	if !valid(wish) {
		http.Error(w, `{"message": "Invalid request."}`, http.StatusUnprocessableEntity)
		return
	}
	if !c.SplitStreams && stream(wish) != v1.LogStreamAll {
		http.Error(w,
			fmt.Sprintf("unable to return the given log stream: %q. Please enable PodLogsQuerySplitStreams feature gate in "+
				"kubelet",
				stream(wish)), http.StatusBadRequest)
		return
	}
	pod := c.Find.newest(w, r, namespace, name)
	if pod == nil {
		return
	}
	if !hasContainer(pod, container) {
		http.Error(w, fmt.Sprintf("container %q not found in pod %q", container, name), http.StatusNotFound)
		return
	}
	id, err := incarnation(pod, container, wish.Previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	path, err := c.path(r.Context(), id)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, bare, _ := strings.Cut(id, "://")
	o := crilog.Options{
		Path: path, Container: bare, Tail: wish.TailLines, Limit: wish.LimitBytes, Since: since(wish, time.Now()),
		Stamps: wish.Timestamps,
		Stdout: stream(wish) != v1.LogStreamStderr, Stderr: stream(wish) != v1.LogStreamStdout,
		Follow: wish.Follow, Watcher: c.Watcher,
		Running: func(ctx context.Context) bool { return c.running(ctx, pod, container, id) },
	}
	out := &flushing{w: w}
	if err := crilog.Read(r.Context(), o, out); err != nil && !out.begun {
		http.Error(w, err.Error(), http.StatusBadRequest)
	} else if err != nil {
		// The client must not take this for the end of the log.
		panic(http.ErrAbortHandler)
	}
}

// flushing flushes each write at once.
type flushing struct {
	w     http.ResponseWriter
	begun bool
}

// Begin implements crilog.Beginner: an empty log still gets an answer.
func (f *flushing) Begin() error {
	if f.begun {
		return nil
	}
	f.begun = true
	f.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	f.w.WriteHeader(http.StatusOK)
	return http.NewResponseController(f.w).Flush()
}

// Write implements io.Writer.
func (f *flushing) Write(b []byte) (int, error) {
	if err := f.Begin(); err != nil {
		return 0, err
	}
	n, err := f.w.Write(b)
	if err != nil {
		return n, err
	}
	return n, http.NewResponseController(f.w).Flush()
}

var _ io.Writer = (*flushing)(nil)

// path asks the runtime for the path of a container's log.
func (c LogsConfig) path(ctx context.Context, id string) (string, error) {
	_, bare, _ := strings.Cut(id, "://")
	ctx, cancel := context.WithTimeout(ctx, shortTimeout)
	defer cancel()
	seen, err := answer.Of(ctx, func(done func(observed.Container, error)) { c.Runtime.ContainerStatus(ctx, bare, done) })
	switch {
	case err != nil:
		return "", fmt.Errorf("unable to retrieve container logs for %s", id)
	case seen.LogPath == "":
		return "", fmt.Errorf("unable to retrieve container logs for %s: the runtime does not write logs", id)
	}
	return seen.LogPath, nil
}

// running reports whether an incarnation may still write. Without an answer of the runtime, it
// may.
func (c LogsConfig) running(ctx context.Context, pod *v1.Pod, container, id string) bool {
	found, err := c.Find(ctx, pod.Namespace, pod.Name)
	if err != nil {
		return true
	}
	for _, p := range found {
		if p.UID != pod.UID {
			continue
		}
		s := statusOf(p, container)
		return s != nil && s.ContainerID == id && podspec.Lives(&p.Spec, s)
	}
	return false
}

// hasContainer reports whether a pod has a container of that name, of any kind.
func hasContainer(p *v1.Pod, name string) bool {
	c, _ := podspec.Find(&p.Spec, name)
	return c != nil
}

func statusOf(p *v1.Pod, container string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
		p.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				return &list[i]
			}
		}
	}
	return nil
}

// incarnation is the ID of the container whose log is requested. Users know its errors from
// kubectl.
func incarnation(p *v1.Pod, container string, previous bool) (string, error) {
	s := statusOf(p, container)
	if s == nil {
		return "", fmt.Errorf("container %q in pod %q is not available", container, p.Name)
	}
	last := ""
	if t := s.LastTerminationState.Terminated; t != nil {
		last = t.ContainerID
	}
	now := s.State
	switch {
	case previous && last == "":
		return "", fmt.Errorf("previous terminated container %q in pod %q not found", container, p.Name)
	case previous:
		return last, nil
	case now.Running != nil:
		return s.ContainerID, nil
	case now.Terminated != nil && now.Terminated.ContainerID != "":
		return now.Terminated.ContainerID, nil
	case last != "":
		return last, nil
	case podspec.Lives(&p.Spec, s): // its postStart hook runs, and may never end
		return s.ContainerID, nil
	case now.Terminated != nil:
		return "", fmt.Errorf("container %q in pod %q is terminated", container, p.Name)
	}
	why := "no logs yet"
	if now.Waiting != nil {
		switch why = now.Waiting.Reason; why {
		case "ErrImagePull":
			why = "image can't be pulled"
		case "ImagePullBackOff":
			why = "trying and failing to pull image"
		}
	}
	return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", container, p.Name, why)
}

// parseLogOptions parses the apiserver's query (PodLogOptions), and tail, which older clients
// send.
func parseLogOptions(q url.Values) (o v1.PodLogOptions, err error) {
	flag := func(name string) bool {
		value, given := q[name]
		return given && !strings.EqualFold(value[0], "false") && value[0] != "0"
	}
	number := func(name string) *int64 {
		value := q.Get(name)
		if value == "" {
			return nil
		}
		n, e := strconv.ParseInt(value, 10, 64)
		err = errors.Join(err, e)
		return &n
	}
	o.Follow, o.Previous, o.Timestamps = flag("follow"), flag("previous"), flag("timestamps")
	o.SinceSeconds, o.TailLines, o.LimitBytes = number("sinceSeconds"), number("tailLines"), number("limitBytes")
	switch q.Get("tail") {
	case "":
	case "all":
		o.TailLines = nil
	default:
		o.TailLines = number("tail")
	}
	if at := q.Get("sinceTime"); at != "" {
		t, e := time.Parse(time.RFC3339, at)
		err = errors.Join(err, e)
		o.SinceTime = &metav1.Time{Time: t}
	}
	if s := q.Get("stream"); s != "" {
		o.Stream = &s
	}
	return o, err
}

// valid reports whether the API allows the options.
func valid(o v1.PodLogOptions) bool {
	s := stream(o)
	return (o.TailLines == nil || *o.TailLines >= 0) && (o.LimitBytes == nil || *o.LimitBytes >= 1) &&
		(o.SinceSeconds == nil || *o.SinceSeconds >= 1) && (o.SinceSeconds == nil || o.SinceTime == nil) &&
		(s == v1.LogStreamAll || o.TailLines == nil && (s == v1.LogStreamStdout || s == v1.LogStreamStderr))
}

func stream(o v1.PodLogOptions) string {
	if o.Stream == nil {
		return v1.LogStreamAll
	}
	return *o.Stream
}

func since(o v1.PodLogOptions, now time.Time) time.Time {
	switch {
	case o.SinceSeconds != nil:
		return now.Add(-time.Duration(min(*o.SinceSeconds, int64(1<<31))) * time.Second)
	case o.SinceTime != nil:
		return o.SinceTime.Time
	default:
		return time.Time{}
	}
}

// SystemLogsRoutes are /logs/: the files below a directory (enableSystemLogHandler), and with query
// also the log queries of the node (enableSystemLogQuery, see nodelog). No path leads out of the
// directory, and no link either. A link with an absolute path that stays in it is followed, such as all of
// /var/log/containers.
func SystemLogsRoutes(dir string, query bool) ([]Route, error) {
	all, err := openLogFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("system logs: %w: set enableSystemLogHandler: false", err)
	}
	files := http.FileServerFS(all)
	if query {
		files = nodelog.New(nodelog.Config{Files: all, Plain: files})
	}
	r := Route{Path: "/logs/", Methods: []string{http.MethodGet}, Subresources: Log, Long: true,
		Handler: http.StripPrefix("/logs", files)}
	top := r
	top.Path, top.Handler = "/logs", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := url.URL{Path: "/logs/", RawQuery: r.URL.RawQuery}
		http.Redirect(w, r, to.String(), http.StatusMovedPermanently)
	})
	return []Route{r, top}, nil
}
