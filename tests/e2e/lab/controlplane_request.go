package lab

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/troupe-dev/troupe/tests/check"
)

// CompactEtcd makes etcd forget all versions of objects but the newest (etcd v3 API, over HTTP).
func (c *ControlPlane) CompactEtcd(ctx context.Context) error {
	key := base64.StdEncoding.EncodeToString([]byte("/"))
	var status struct{ Header struct{ Revision string } }
	answer, err := c.etcdCall(ctx, "/v3/kv/range", map[string]any{"key": key, "count_only": true})
	if err == nil {
		err = json.Unmarshal(answer, &status)
	}
	if err != nil {
		return fmt.Errorf("read etcd's revision: %w", err)
	}
	if _, err := c.etcdCall(ctx, "/v3/kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true}); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}

func (c *ControlPlane) etcdCall(ctx context.Context, path string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return c.request(ctx, http.MethodPost, c.ports.Etcd, path, text)
}

// request makes a request at a loopback port, as the administrator, and wants a good answer.
func (c *ControlPlane) request(
	ctx context.Context, method string, port int, path string, body []byte,
) (_ []byte, err error) {
	defer check.Return(&err)
	config := check.Must(c.admin.tls(c.authority))
	if port == c.ports.Controllers || port == c.ports.Scheduler {
		// They make a certificate of their own, which nobody knows.
		config.InsecureSkipVerify = true
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	request := check.Must(http.NewRequestWithContext(ctx, method, "https://"+loopback(port)+path, bytes.NewReader(body)))
	response := check.Must((&http.Client{Transport: transport}).Do(request))
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer, err
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
