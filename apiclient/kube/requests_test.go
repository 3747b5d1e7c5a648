package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestWrites: what a write asks of the apiserver.
func TestWrites(t *testing.T) {
	type request struct{ line, kind, body string }
	seen := make(chan request, 1)
	config := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seen <- request{r.Method + " " + r.URL.Path, r.Header.Get("Content-Type"), string(body)}
		give(w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	})
	c := newClient(t, Config{REST: config})
	pod := port.APIKey{Kind: port.PodKind, Namespace: "default", Name: "web"}
	from := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1", ResourceVersion: "7"}}
	to := from.DeepCopy()
	to.Status.Phase = v1.PodRunning
	labeled := from.DeepCopy()
	labeled.Labels = map[string]string{"a": "b"}
	grace := int64(3)
	const merge = "application/strategic-merge-patch+json"
	const path = "/api/v1/namespaces/default/pods/web"
	patch := func(p port.APIPatch) func(done func(error)) {
		return func(done func(error)) {
			c.Patch(t.Context(), p, func(_ port.APIObject, err error) { done(err) })
		}
	}
	for _, tt := range []struct {
		name string
		call func(done func(error))
		want request
	}{
		{"status", patch(port.APIPatch{Key: pod, From: from, To: to, Status: true}),
			request{"PATCH " + path + "/status", merge, `{"metadata":{"uid":"u1"},"status":{"phase":"Running"}}`}},
		{"of this version", patch(port.APIPatch{Key: pod, From: from, To: labeled, Newest: true}),
			request{"PATCH " + path, merge, `{"metadata":{"labels":{"a":"b"},"resourceVersion":"7","uid":"u1"}}`}},
		{"delete", func(done func(error)) {
			c.Delete(t.Context(), port.APIDelete{Key: pod, UID: "u1", Grace: &grace}, done)
		},
			request{"DELETE " + path, protobuf, `{"gracePeriodSeconds":3,"preconditions":{"uid":"u1"}}`}},
		{"token", func(done func(error)) {
			spec := authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}, ExpirationSeconds: &grace}
			c.CreateToken(t.Context(), "default", "robot", spec, func(_ authenticationv1.TokenRequestStatus, err error) { done(err) })
		}, request{"POST /api/v1/namespaces/default/serviceaccounts/robot/token", protobuf,
			`{"audiences":["vault"],"expirationSeconds":3,"boundObjectRef":null}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// What is answered is of no kind that fits, which does not matter.
			result(t, func(done func(struct{}, error)) { tt.call(func(err error) { done(struct{}{}, err) }) }) //nolint:errcheck // see above
			got := <-seen
			if got.kind == protobuf {
				got.body = decoded(t, got.body)
			}
			if got != tt.want {
				t.Errorf("asked\n%+v, want\n%+v", got, tt.want)
			}
		})
	}
}

const protobuf = "application/vnd.kubernetes.protobuf"

// decoded is a body in protobuf as JSON: the options of a deletion, or the spec of a token.
func decoded(t *testing.T, body string) string {
	t.Helper()
	var (
		unknown runtime.Unknown
		options metav1.DeleteOptions
		token   authenticationv1.TokenRequest
		out     any = &options
	)
	err := unknown.Unmarshal([]byte(strings.TrimPrefix(body, "k8s\x00")))
	if err == nil && unknown.Kind == "TokenRequest" {
		out, err = &token.Spec, token.Unmarshal(unknown.Raw)
	} else if err == nil {
		err = options.Unmarshal(unknown.Raw)
	}
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return string(check.Value(json.Marshal(out))(t))
}

// TestLimits: a lease is renewed every ten seconds, so that a write of one that hangs must end by then.
func TestLimits(t *testing.T) {
	var got []string
	for _, k := range []port.APIKind{port.LeaseKind, port.NodeKind, port.PodKind} {
		for _, verb := range []string{"get", "update"} {
			limit := writeTimeout
			if verb == "get" {
				limit = readTimeout
			}
			got = append(got, fmt.Sprint(verb, " ", k, " ", callOn(verb, port.APIKey{Kind: k}, limit).limit))
		}
	}
	const want = "get Lease 10s, update Lease 10s, get Node 10s, update Node 10s, get Pod 15s, update Pod 35s"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("the limits are %s, want %s", text, want)
	}
}
