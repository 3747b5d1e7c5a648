package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/troupe-dev/troupe/tests/check"
)

// use has users of the node do what they do, and leave in the middle.
func (s *soak) use(t *testing.T, n int) {
	t.Helper()
	for i := range soakPods {
		pod := fmt.Sprint("set-", i)
		s.await(t, pod+" sees what has changed", func() error {
			for _, name := range []string{"settings", "secret"} {
				out := check.Must(s.exec(t.Context(), pod, "tool", "/work", "cat", "/"+name+"/round"))
				check.OK(check.That(out == strconv.Itoa(n), "%s says %q, want %d", name, out, n))
			}
			return nil
		})
		logs := check.Value(s.logs(t.Context(), pod, "tool"))(t)
		check.Equal(t, logs, "begin\n", "the log of %s", pod)
		check.Fatal(t, s.followAndLeave(t.Context(), pod, "tool"))
	}
	client, at := s.client(t)
	for _, path := range []string{
		"/metrics", "/metrics/resource", "/metrics/cadvisor", "/metrics/probes", "/stats/summary", "/pods",
	} {
		answer := check.Value(client.Get(at + path))(t)
		check.Value(io.Copy(io.Discard, answer.Body))(t)
		check.Fatal(t, answer.Body.Close())
		check.Equal(t, answer.StatusCode, http.StatusOK, "the status of %s", path)
	}
	client.CloseIdleConnections()
}

// exec runs a command in a container through the apiserver, as kubectl exec does, and gives its output.
func (b *bed) exec(ctx context.Context, pod, container string, command ...string) (_ string, err error) {
	defer check.Return(&err)
	url := b.admin.CoreV1().RESTClient().Post().Resource("pods").Namespace(b.name).Name(pod).SubResource("exec").
		VersionedParams(&v1.PodExecOptions{
			Container: container, Command: command, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
	stream := check.Must(remotecommand.NewWebSocketExecutor(b.plane.AdminConfig(), http.MethodGet, url.String()))
	var out, errs bytes.Buffer
	if err := stream.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errs}); err != nil {
		return "", fmt.Errorf("exec %q in %s: %w: %s", command, pod, err, &errs)
	}
	return out.String(), nil
}

// logs is the last line of a container's log, as kubectl logs gives it.
func (b *bed) logs(ctx context.Context, pod, container string) (string, error) {
	options := &v1.PodLogOptions{Container: container, TailLines: new(int64(1))}
	text, err := b.admin.CoreV1().Pods(b.name).GetLogs(pod, options).DoRaw(ctx)
	return string(text), err
}

// followAndLeave follows a log, and leaves as soon as there is something of it.
func (b *bed) followAndLeave(ctx context.Context, pod, container string) (err error) {
	defer check.Return(&err)
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	options := &v1.PodLogOptions{Container: container, Follow: true}
	log := check.Must(b.admin.CoreV1().Pods(b.name).GetLogs(pod, options).Stream(ctx))
	defer log.Close()
	check.Must(io.ReadFull(log, make([]byte, 1)))
	return nil
}
