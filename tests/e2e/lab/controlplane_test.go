package lab

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestControlPlane starts everything, and asks as an administrator and as a node.
//
//tier:all a test of the tests' own lab
func TestControlPlane(t *testing.T) {
	c := ForControlPlaneTest(t, ControlPlaneConfig{ControllerManager: true, Scheduler: true})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	if status, body := ask(ctx, t, c.AdminConfig(), "/version"); status != http.StatusOK || !strings.Contains(body, `"gitVersion": "v1.36.`) {
		t.Errorf("version: %d %s", status, body)
	}
	path := check.Value(c.Kubeconfig("system:node:n1", "system:nodes"))(t)
	node := check.Value(clientcmd.BuildConfigFromFlags("", path))(t)
	for path, want := range map[string]int{
		"/api/v1/nodes/n1":                                http.StatusNotFound, // allowed, but not there
		"/api/v1/nodes/n2":                                http.StatusForbidden,
		"/api/v1/namespaces/default/secrets/x":            http.StatusForbidden,
		"/api/v1/pods?fieldSelector=spec.nodeName%3Dn1":   http.StatusOK,
		"/api/v1/pods?fieldSelector=spec.nodeName%3Dn2":   http.StatusForbidden,
		"/apis/certificates.k8s.io/v1/certificatesigning": http.StatusForbidden,
	} {
		if status, body := ask(ctx, t, node, path); status != want {
			t.Errorf("as the node, %s: %d, want %d: %s", path, status, want, body)
		}
	}
	expired := check.Value(
		c.KubeconfigOf(Identity{User: "system:node:n2", Groups: []string{"system:nodes"}, Lifetime: -time.Minute, Files: true}))(t)
	late := check.Value(clientcmd.BuildConfigFromFlags("", expired))(t)
	if status, body := ask(ctx, t, late, "/api/v1/nodes/n2"); status != http.StatusUnauthorized {
		t.Errorf("with an expired certificate: %d, want 401: %s", status, body)
	}

	check.Error(t, c.CompactEtcd(ctx))
	address, pid := c.Address(), c.APIServerPID()
	check.Fatal(t, c.RestartAPIServer(ctx))
	if c.Address() != address || c.APIServerPID() == pid {
		t.Errorf("restarted: process %d at %s, want another than %d at %s", c.APIServerPID(), c.Address(), pid, address)
	}
	if status, body := ask(ctx, t, c.AdminConfig(), "/api/v1/namespaces/default"); status != http.StatusOK {
		t.Errorf("after a restart: %d %s", status, body)
	}
	checkShared(ctx, t, c)
	begin := time.Now()
	check.Error(t, c.Stop(ctx))
	t.Logf("stopped in %v", time.Since(begin))
	if err := c.Stop(ctx); err != nil {
		t.Errorf("stop again: %v", err)
	}
}

// checkShared shares a control plane, and takes it twice.
func checkShared(ctx context.Context, t *testing.T, c *ControlPlane) {
	t.Helper()
	t.Setenv("CI", "") // there, nobody takes what is shared
	path := filepath.Join(t.TempDir(), "plane.json")
	sharing, stop := context.WithCancel(ctx)
	defer stop()
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- c.share(sharing, path, t.Output(), func(string) { close(started) }) }()
	select {
	case <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	fingerprint := check.Value(c.config.fingerprint())(t)
	file := check.Value(readPlaneFile(path, fingerprint))(t)
	conn := check.Value(file.take(ctx))(t)
	config := c.config
	config.Dir = t.TempDir()
	first := check.Value(file.controlPlane(config, conn))(t)
	check.Says(t, check.Err(file.take(ctx)), planeIsTaken, "taken a second time")
	check.Fails(t, first.StopAPIServer(ctx), "who takes a control plane stopped its apiserver")
	admin := check.Value(kubernetes.NewForConfig(first.AdminConfig()))(t)
	left := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "left"}}
	check.Value(admin.CoreV1().Namespaces().Create(ctx, left, metav1.CreateOptions{}))(t)
	check.Error(t, first.Stop(ctx))
	// It is made as new now. Of two who wait for that one gets it, and the other one is told so.
	type answer struct {
		loan *loan
		err  error
	}
	answers := make(chan answer, 2)
	for range 2 {
		go func() {
			l, err := file.take(ctx)
			answers <- answer{l, err}
		}()
	}
	refused, second := <-answers, <-answers
	if refused.err == nil {
		refused, second = second, refused
	}
	if second.err != nil || refused.err == nil || !strings.Contains(refused.err.Error(), planeIsTaken) {
		t.Fatalf("of two who wait: %v and %v, want one that has it and %q", second.err, refused.err, planeIsTaken)
	}
	if _, err := admin.CoreV1().Namespaces().Get(ctx, left.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what the first one left, for the second one: %v, want not found", err)
	}
	check.Error(t, second.loan.Close())
	stop()
	check.Error(t, <-ended)
	if _, err := readPlaneFile(path, fingerprint); !errors.Is(err, errNoPlane) {
		t.Errorf("after the end: %v, want %v", err, errNoPlane)
	}
}

//tier:all a test of the tests' own lab
func TestControlPlaneThatDoesNotStart(t *testing.T) {
	Need(t, GoToolchain)
	_, err := StartControlPlane(t.Context(), ControlPlaneConfig{Dir: t.TempDir(), APIServerFlags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver") || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("error %v, want one that names the program and shows what it said", err)
	}
}

func ask(ctx context.Context, t *testing.T, config *rest.Config, path string) (int, string) {
	t.Helper()
	client := check.Value(rest.HTTPClientFor(config))(t)
	request := check.Value(http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil))(t)
	response := check.Value(client.Do(request))(t)
	defer response.Body.Close()
	body := check.Value(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(body)
}
