package metrics_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/metrics"
	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/tests/check"
)

// puller is a runtime that has pulled an image at once.
type puller struct {
	port.Runtime
	size uint64
}

func (p puller) PullImage(_ context.Context, _ port.PullImage, done func(string, error)) {
	done("sha256:1", nil)
}

func (p puller) ImageStatus(ctx context.Context, ref string, done func(observed.Image, bool, error)) {
	if ref != "sha256:1" || ctx.Err() != nil {
		done(observed.Image{}, false, ctx.Err())
		return
	}
	done(observed.Image{SizeBytes: p.size}, p.size > 0, nil)
}

func TestServer(t *testing.T) {
	m := check.Value(metrics.New(metrics.Config{Node: "n", Version: "v1.36.0", Began: time.Now()}))(t)
	ended := m.Served(serve.Served{Method: "GET", Path: "exec"})
	m.Served(serve.Served{ReadOnly: true, Method: "other", Path: "metrics/cadvisor"})()
	m.WebSocket("exec")
	m.ServerCertificate(func() (*tls.Certificate, error) { return nil, errors.New("none yet") })
	m.ClientCertificate(func() *tls.Certificate {
		return &tls.Certificate{Leaf: &x509.Certificate{NotAfter: time.Now().Add(-time.Hour)}}
	})
	m.ClientRenewals()()
	m.ServerRotations()(24 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as that of a pull, once it has ended
	for _, size := range []uint64{0, 1, 10 << 20, 10<<20 + 1, 600 << 20, 200 << 30} {
		m.Starts(puller{size: size}).PullImage(ctx, port.PullImage{}, func(string, error) {})
	}
	answer := httptest.NewRecorder()
	m.Routes(asked())[0].Handler.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	got := answer.Body.String()
	for _, want := range []string{
		`kubelet_http_requests_total{long_running="true",method="GET",path="exec",server_type="readwrite"} 1`,
		`kubelet_http_inflight_requests{long_running="true",method="GET",path="exec",server_type="readwrite"} 1`,
		`kubelet_http_requests_duration_seconds_count{long_running="false",method="other",path="metrics/cadvisor",server_type="readonly"} 1`,
		`kubelet_http_inflight_requests{long_running="false",method="other",path="metrics/cadvisor",server_type="readonly"} 0`,
		`kubelet_websocket_streaming_requests_total{subresource="exec"} 1`,
		`kubelet_certificate_manager_server_ttl_seconds +Inf`,
		`kubelet_certificate_manager_client_ttl_seconds -3600`,
		`kubelet_certificate_manager_client_expiration_renew_errors 1`,
		`kubelet_certificate_manager_server_rotation_seconds_bucket{le="14400"} 0`,
		`kubelet_certificate_manager_server_rotation_seconds_bucket{le="86400"} 1`,
		`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="N/A"} 1`,
		`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="0-10MB"} 2`,
		`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="10MB-100MB"} 1`,
		`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="500MB-1GB"} 1`,
		`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="GT100GB"} 1`,
	} {
		check.Has(t, got, want+"\n", "there is no %s", want)
	}
	ended()
}
