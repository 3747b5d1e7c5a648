package admin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/timeline"
	"github.com/troupe-dev/troupe/tests/check"
)

// web serves the page for an agent until the test ends, and gives its address
// and its secret.
func web(t *testing.T, socket string) (address, secret string) {
	t.Helper()
	w := check.Value(ListenWeb(WebConfig{Address: "127.0.0.1:0", Socket: socket}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		check.Error(t, <-ended)
	})
	u := check.Value(url.Parse(w.URL()))(t)
	secret, is := strings.CutPrefix(u.Fragment, "secret=")
	if !is || len(secret) < 20 {
		t.Fatalf("the address is %s", u)
	}
	return "http://" + u.Host, secret
}

func TestWeb(t *testing.T) {
	c := node(t, nil)
	address, secret := web(t, c.Socket)
	know := http.Header{"Authorization": {"Bearer " + secret}}
	with := func(name, value string) http.Header {
		h := know.Clone()
		h.Set(name, value)
		return h
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, q := range []struct {
		name, method, path string
		header             http.Header
		status             int
		want               string
	}{
		{"the page", "GET", "/", nil, 200, "<title>troupe</title>"},
		{"the page of another site's link", "GET", "/", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 200, "<title>troupe</title>"},
		{"pods", "GET", "/v1/pods", know, 200, `"name":"web"`},
		{"a timeline", "GET", "/v1/timeline?pod=default%2Fweb", know, 200, `"what":"Started"`},
		{"an error of the agent", "GET", "/v1/timeline?pod=web", know, 409, "is ambiguous"},
		{"from the page", "GET", "/v1/pods", with("Sec-Fetch-Site", "same-origin"), 200, "web"},
		{"without the secret", "GET", "/v1/pods", nil, 401, "open the URL that `troupe web` prints"},
		{"with another secret", "GET", "/v1/tree", http.Header{"Authorization": {"Bearer " + secret[1:]}}, 401, "secret"},
		{"the secret in the address", "GET", "/v1/tree?secret=" + secret, nil, 401, "secret"},
		{"for another site", "GET", "/v1/pods", with("Sec-Fetch-Site", "cross-site"), 403, "cross-site request"},
		{"for another port", "GET", "/v1/pods", with("Sec-Fetch-Site", "same-site"), 403, "cross-site request"},
		{"under another name", "GET", "/v1/pods", with("Host", "evil.example"), 403, "use localhost"},
		{"the page under another name", "GET", "/", with("Host", "evil.example:80"), 403, "use localhost"},
		{"as localhost by a forwarded port", "GET", "/v1/pods", with("Host", "localhost:8080"), 200, "web"},
		{"to write", "POST", "/v1/pods", know, 405, "read-only"},
		{"what is not there", "GET", "/v2", know, 404, "not found: open /"},
		{"a way out", "GET", "/v1/../../etc/passwd", know, 404, "not found: open /"},
	} {
		t.Run(q.name, func(t *testing.T) {
			r := check.Value(http.NewRequestWithContext(t.Context(), q.method, address+q.path, nil))(t)
			if q.header != nil {
				r.Header, r.Host = q.header, q.header.Get("Host")
			}
			response := check.Value(client.Do(r))(t)
			defer response.Body.Close() //nolint:errcheck // it was read
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != q.status || !strings.Contains(string(body), q.want) {
				t.Errorf("%v %s, %s", err, response.Status, body[:min(len(body), 300)])
			}
			for _, name := range guarded {
				if n := len(response.Header.Values(name)); n != 1 && q.status != http.StatusMovedPermanently {
					t.Errorf("%d headers %s", n, name)
				}
			}
			if q.status == 200 && q.path == "/" {
				checkPolicy(t, response.Header.Get("Content-Security-Policy"))
			}
		})
	}
}

func checkPolicy(t *testing.T, policy string) {
	t.Helper()
	for _, want := range []string{"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "script-src 'sha256-"} {
		check.Has(t, policy, want, "no %s in the policy %s", want, policy)
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %s", policy)
	}
}

func TestWebOfNoAgent(t *testing.T) {
	address, secret := web(t, SocketIn(t.TempDir()))
	r := check.Value(http.NewRequestWithContext(t.Context(), "GET", address+"/v1/tree", nil))(t)
	r.Header.Set("Authorization", "Bearer "+secret)
	response := check.Value((&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r))(t)
	defer response.Body.Close() //nolint:errcheck // it was read
	var refused struct{ Error string }
	if err := json.NewDecoder(response.Body).Decode(&refused); err != nil || response.StatusCode != 502 || !strings.Contains(refused.Error, "is it running with --root-dir") {
		t.Errorf("%v %s %+v", err, response.Status, refused)
	}
}

func TestWebAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0:0": "on this machine only", ":0": "on this machine only", "192.0.2.1:80": "on this machine only", "troupe:80": "on this machine only",
		"node.example:80": "on this machine only", "127.0.0.1": "give host:port", "127.0.0.1:x": "choose another --listen",
	} {
		check.Says(t, check.Err(ListenWeb(WebConfig{Address: address, Socket: "/s"})), want, "%s", address)
	}
	if _, err := ListenWeb(WebConfig{Address: "127.0.0.1:0", Socket: "/" + strings.Repeat("x", 200)}); err == nil || !strings.Contains(err.Error(), "shorter --root-dir") {
		t.Error(err)
	}
}

func TestLocal(t *testing.T) {
	for host, want := range map[string]bool{
		"": true, "troupe": true, "localhost": true, "LOCALHOST:80": true, "127.0.0.1:8080": true, "127.1.2.3": true, "[::1]:80": true, "[::1]": true,
		"localhost.evil.example": false, "evil.example:80": false, "10.0.0.1": false, "[::2]:1": false, "127.0.0.1.evil.example": false, "0.0.0.0": false,
	} {
		check.Equal(t, local(host), want, "%q is local", host)
	}
}

// TestNothingOfOthersInThePage: it is one file that asks nobody else.
func TestNothingOfOthersInThePage(t *testing.T) {
	w := httptest.NewRecorder()
	servePage(w, nil)
	body := w.Body.String()
	for _, bad := range []string{"http://", "https://", "@import", "/*STYLE*/", "/*SCRIPT*/", "innerHTML", "style=\"", "onclick"} {
		if strings.Contains(body, bad) {
			t.Errorf("%s in the page", bad)
		}
	}
	if !strings.Contains(body, "<script>"+pageScript+"</script>") || !strings.Contains(body, "<style>"+pageStyle+"</style>") {
		t.Error("what is in the page is not what its policy allows")
	}
	check.AtMost(t, len(body), 64<<10, "the page has %d bytes", len(body))
}

func TestTimelineWithoutPods(t *testing.T) {
	c := node(t, nil)
	got, err := c.Timeline(t.Context(), "default/web")
	if err != nil || got.Pod == nil || got.Pod.Name != "web" || len(got.Entries) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	check.Says(t, check.Err(c.Timeline(t.Context(), "a b&pod=u1")), `pod "a b&pod=u1"`, "the error")
	letters, err := c.Letters(t.Context())
	if want := []timeline.Letter{{At: at, To: "n/pods/u0", Type: "pod.Wake"}}; err != nil || len(letters) != 1 || letters[0] != want[0] {
		t.Errorf("%+v %v", letters, err)
	}
}
