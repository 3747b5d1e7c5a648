package kube

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/port"
)

func TestHealth(t *testing.T) {
	var text strings.Builder
	h := newHealth(zerolog.New(&text), "https://x")
	a, b := &watch{}, &watch{}
	err := func(k port.ErrorKind) error {
		return &port.Error{Kind: k, Verb: "watch", Object: "Pod", Detail: "because"}
	}
	for _, step := range []struct {
		what string
		do   func()
		want string // of the new lines; empty: none
	}{
		{"fine", func() { h.heard(a) }, ""},
		{"one breaks", func() { h.broke(a, err(port.Unavailable)) }, "does not answer"},
		{"another too", func() { h.broke(b, err(port.Unavailable)) }, ""},
		{"for another reason", func() { h.broke(b, err(port.Unauthorized)) }, "rejects the credential of this node"},
		{"one is back", func() { h.heard(a) }, ""},
		{"all are", func() { h.heard(b) }, "answers again"},
		{"again", func() { h.heard(b) }, ""},
		{"what concerns one", func() { h.broke(a, err(port.Forbidden)) }, "watch failed"},
		{"is not the apiserver's silence", func() { h.heard(a) }, ""},
		{"breaks anew", func() { h.broke(a, err(port.Unavailable)) }, "does not answer"},
		{"ends", func() { h.ended(a) }, ""},
		{"breaks once more", func() { h.broke(b, err(port.Deadline)) }, "does not answer"},
	} {
		text.Reset()
		step.do()
		lines := strings.Count(text.String(), "\n")
		if step.want == "" && lines > 0 || step.want != "" && (lines != 1 || !strings.Contains(text.String(), step.want)) {
			t.Errorf("%s: the log says %q, want %q", step.what, text.String(), step.want)
		}
	}
}
