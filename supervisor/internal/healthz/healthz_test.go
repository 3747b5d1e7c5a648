package healthz

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, checks ...Check) (url string) {
	t.Helper()
	s := check.Value(Listen(Config{Address: "127.0.0.1:0", Checks: checks}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		check.Error(t, <-ended)
	})
	return "http://" + s.Address()
}

var client = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func want(t *testing.T, url string, status int, text string) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status || text != "" && string(body) != text {
		t.Errorf("%s: %s %q %v, want %d %q", url, response.Status, body, err, status, text)
	}
}

func TestHealthz(t *testing.T) {
	var fault error
	url := start(t, Check{"syncloop", func(context.Context) error { return fault }}, Check{"runtime", func(context.Context) error { return nil }})
	want(t, url+"/healthz", 200, "ok")
	want(t, url+"/healthz?verbose", 200, "[+]ping ok\n[+]log ok\n[+]syncloop ok\n[+]runtime ok\nhealthz check passed\n")
	for _, name := range []string{"ping", "log", "syncloop", "runtime"} {
		want(t, url+"/healthz/"+name, 200, "ok")
	}
	want(t, url+"/healthz/nothing", 404, "")
	want(t, url+"/", 404, "")

	fault = errors.New("the pods actor is stuck for 3m")
	want(t, url+"/healthz", 500, "[+]ping ok\n[+]log ok\n[-]syncloop failed: the pods actor is stuck for 3m\n[+]runtime ok\nhealthz check failed\n")
	want(t, url+"/healthz/syncloop", 500, "[-]syncloop failed: the pods actor is stuck for 3m\nhealthz check failed\n")
	want(t, url+"/healthz/ping", 200, "ok")
}

// A check that hangs is asked once, however many ask for it.
func TestACheckThatHangs(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{}, 10)
	p := &probe{Check: Check{"stuck", func(context.Context) error {
		entered <- struct{}{}
		<-release
		return nil
	}}}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		check.Fails(t, p.run(impatient), "it is well")
	}
	<-entered
	check.Equal(t, len(entered), 0, "was asked again while it hung")
	close(release)
	check.Error(t, p.run(t.Context()))
}

func TestTheAddressIsTaken(t *testing.T) {
	url := start(t)
	check.Fails(t, check.Err(Listen(Config{Address: url[len("http://"):]})), "it was taken twice")
}

// TestLater: an address that another process has is served when that has gone; a name of a host is resolved.
func TestLater(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(other.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Address: "localhost:" + port}
	if _, err := Listen(c); err == nil {
		t.Fatal("it was taken twice")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Later(ctx, c, time.Millisecond) }()
	check.Fatal(t, other.Close())
	for deadline := time.Now().Add(time.Minute); ; {
		response, err := client.Get("http://127.0.0.1:" + port + "/healthz")
		if err == nil {
			response.Body.Close() //nolint:errcheck // it was read
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	cancel()
	check.Error(t, <-ended)
	check.Error(t, Later(ctx, Config{Address: "no such address"}, time.Millisecond))
}
