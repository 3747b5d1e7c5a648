package probe

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestTargetOf(t *testing.T) {
	app := &v1.Container{
		Name:  "app",
		Ports: []v1.ContainerPort{{Name: "web", ContainerPort: 8080, HostPort: 80}},
		Env:   []v1.EnvVar{{Name: "A", Value: "a"}},
	}
	service := "s"
	headers := []v1.HTTPHeader{{Name: "X", Value: "y"}}
	for name, c := range map[string]struct {
		handler v1.ProbeHandler
		ip      string
		want    Target
		unknown bool
		err     string
	}{
		"exec": {handler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x", "$(A)", "$$(A)", "$(REF)", "$(NONE)"}}},
			want: Exec{[]string{"x", "$(A)", "$$(A)", "$(REF)", "$(NONE)"}, app.Env}},
		"http": {handler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/x?y=1", Port: intstr.FromInt32(81), HTTPHeaders: headers}}, ip: "10.0.0.1",
			want: HTTP{Host: "10.0.0.1", Port: 81, Path: "/x?y=1", Headers: headers}},
		"https at another host, port by name": {handler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Host: "h", Scheme: v1.URISchemeHTTPS, Port: intstr.FromString("web")}},
			want: HTTP{TLS: true, Host: "h", Port: 8080}},
		"no address yet": {handler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(81)}}, unknown: true, want: HTTP{Port: 81}},
		"tcp":            {handler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromString("443")}}, ip: "::1", want: TCP{"::1", 443}},
		"grpc":           {handler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 9, Service: &service}}, ip: "10.0.0.1", want: GRPC{"10.0.0.1", 9, "s"}},
		"no such port":   {handler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("nope")}}, err: `container "app" has no port named "nope"`},
		"not a port":     {handler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromString("70000")}}, err: "invalid port number: 70000"},
		"nothing":        {err: "none of exec"},
	} {
		got, known, err := TargetOf(&v1.Probe{ProbeHandler: c.handler}, app, c.ip)
		switch {
		case c.err != "":
			check.Says(t, err, c.err, "%s: error", name)
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !reflect.DeepEqual(got, c.want) || known == c.unknown:
			t.Errorf("%s: %+v, known %v", name, got, known)
		}
	}
}

func TestWords(t *testing.T) {
	env := []v1.EnvVar{
		{Name: "A", Value: "first"}, {Name: "A", Value: "a"}, {Name: "REF", ValueFrom: &v1.EnvVarSource{}},
		{Name: "LONG", Value: strings.Repeat("x", 1<<20)},
	}
	for _, c := range []struct {
		command []string
		room    int
		want    []string
		err     string
	}{
		{[]string{"x", "$(A)", "$$(A)", "$(REF)", "$(NONE)"}, containerplan.SmallExpansion, []string{"x", "a", "$(A)", "", "$(NONE)"}, ""},
		{[]string{"$(LONG)"}, containerplan.SmallExpansion, nil, "command of the probe: more than 6 MiB"},
		{[]string{"$(LONG)"}, containerplan.MaxExpanded, []string{env[3].Value}, ""},
		{[]string{strings.Repeat("$(LONG)", 7)}, containerplan.MaxExpanded, nil, "command of the probe: more than 6 MiB"},
	} {
		got, err := Exec{c.command, env}.Words(c.room)
		if c.err != "" {
			check.Says(t, err, c.err, "%.20s: error", c.command)
		} else if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%.20s: %.20s, %v", c.command, got, err)
		}
	}
	check.Equal(t, Exec{[]string{"x", "$(A)"}, env}.Text(), "x a", "for people")
	check.Equal(t, Exec{[]string{"x", "$(LONG)"}, env}.Text(), "x $(LONG)", "one that is long, for people")
}

func TestURL(t *testing.T) {
	for path, want := range map[string]string{
		"/x?y=1": "https://[::1]:81/x?y=1", "x": "https://[::1]:81/x", "": "https://[::1]:81",
		"/a b": "https://[::1]:81/a%20b", "/%zz": "https://[::1]:81/%25zz", "//elsewhere/x": "https://[::1]:81/x",
	} {
		if got := (HTTP{TLS: true, Host: "::1", Port: 81, Path: path}).URL().String(); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		got     Answer
		verdict Verdict
		message string // of the event
	}{
		{JudgeExec(0, []byte("fine"), nil), Passed, ""},
		{JudgeExec(2, []byte("no "), []byte("way\n")), Failed, "Liveness probe failed: no way"},
		{JudgeHTTP(200, nil, ""), Passed, ""},
		{JudgeHTTP(399, []byte("elsewhere"), ""), Warned, "Liveness probe warning: Probe terminated redirects, Response body: elsewhere"},
		{JudgeHTTP(400, []byte("secret"), ""), Failed, "Liveness probe failed: HTTP probe failed with statuscode: 400"},
		{JudgeHTTP(199, nil, ""), Failed, "Liveness probe failed: HTTP probe failed with statuscode: 199"},
		{JudgeHTTP(200, nil, "unexpected EOF"), Errored, "Liveness probe errored and resulted in failure state: unexpected EOF"},
		{JudgeHTTP(503, nil, "unexpected EOF"), Errored, "Liveness probe errored and resulted in failure state: unexpected EOF"},
		{JudgeGRPC("SERVING"), Passed, ""},
		{JudgeGRPC("NOT_SERVING"), Failed, `Liveness probe failed: service unhealthy (responded with "NOT_SERVING")`},
		{Answer{Verdict: Errored, Output: "no such port"}, Errored, "Liveness probe errored and resulted in unknown state: no such port"},
	} {
		_, message := Event(Liveness, c.got)
		if c.got.Verdict != c.verdict || message != c.message {
			t.Errorf("%v %q, want %v %q", c.got.Verdict, message, c.verdict, c.message)
		}
	}
	if long := Shown(strings.Repeat("ä", 5000) + "\xff"); len(long) > shownLimit+len("…") || !strings.HasSuffix(long, "…") {
		t.Errorf("%d bytes are shown", len(long))
	}
}
