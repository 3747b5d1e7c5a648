package cluster

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/troupe-dev/troupe/tests/check"
)

// byProxy has an account that may get nodes/proxy, and nothing else, run a command in a pod: the port of the node
// refuses that. The apiserver does not, and the node can't tell: docs/operating.md says so, and what to do.
func (b *bed) byProxy(t *testing.T, pod string) {
	t.Helper()
	token := b.reader(t, t.Context(), "nodes/proxy")
	run := func(base string) (string, error) {
		url := fmt.Sprintf("%s/exec/%s/%s/app?output=1&error=1&command=/work&command=print&command=out", base, b.name, pod)
		c := &rest.Config{BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		exec, err := remotecommand.NewWebSocketExecutor(c, http.MethodGet, url)
		if err != nil {
			return "", err
		}
		var out, errs bytes.Buffer
		err = exec.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
		return out.String() + errs.String(), err
	}
	node := b.node(t)
	said, err := run(fmt.Sprintf("https://127.0.0.1:%d", node.Status.DaemonEndpoints.KubeletEndpoint.Port))
	check.Says(t, err, "403 Forbidden", "at the port of the node")
	check.Equal(t, said, "", "the output")
	said, err = run(fmt.Sprintf("%s/api/v1/nodes/%s/proxy", b.plane.AdminConfig().Host, node.Name))
	check.Error(t, err)
	check.Equal(t, said, "out\n", "the output by way of the apiserver")
}
