package cri

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestConfigValidate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mutate func(*Config)
		want   string // part of the error, none if empty
	}{
		{"base", func(*Config) {}, ""},
		{"plain path", func(c *Config) { c.Endpoint = "/run/x.sock" }, ""},
		{"other image endpoint", func(c *Config) { c.ImageEndpoint = "unix:///run/y.sock" }, ""},
		{"unix: with one slash", func(c *Config) { c.Endpoint = "unix:/run/x.sock" }, ""},
		{"empty", func(c *Config) { c.Endpoint = "" }, "container runtime endpoint: is empty"},
		{"tcp", func(c *Config) { c.Endpoint = "tcp://127.0.0.1:1" }, `scheme "tcp" is not supported`},
		{"two slashes", func(c *Config) { c.Endpoint = "unix://run/x.sock" }, "three slashes"},
		{"relative", func(c *Config) { c.Endpoint = "run/x.sock" }, "not an absolute path"},
		{"image endpoint", func(c *Config) { c.ImageEndpoint = "npipe://x" }, "image service endpoint"},
		{"timeout", func(c *Config) { c.RequestTimeout = -time.Second }, "negative"},
		{"message size", func(c *Config) { c.MaxMessageBytes = -1 }, "negative"},
		{"no node", func(c *Config) { c.Node = nil }, "Config.Node"},
	} {
		c := Config{Endpoint: DefaultEndpoint, Node: func() *translate.Node { return &translate.Node{} }}
		tt.mutate(&c)
		switch err := c.Validate(); {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q in it", tt.name, err, tt.want)
		}
	}
}

func TestDeadlines(t *testing.T) {
	d := deadlines{request: 2 * time.Minute}
	for _, tt := range []struct {
		name      string
		got, want time.Duration
	}{
		{"ask", d.ask(), 10 * time.Second},
		{"inspect", d.inspect(), 15 * time.Second},
		{"list", d.list(), 30 * time.Second},
		{"run sandbox", d.runSandbox(), 4 * time.Minute},
		{"stop container", d.stopContainer(30 * time.Second), 150 * time.Second},
		{"exec", d.exec(time.Second), 121 * time.Second},
		{"exec without a timeout", d.exec(0), none},
		{"short requests shorten all", deadlines{request: 3 * time.Second}.list(), 3 * time.Second},
	} {
		check.Equal(t, tt.got, tt.want, "%s", tt.name)
	}
	for in, want := range map[time.Duration]int64{-1: 0, 0: 0, 1: 1, time.Second: 1, 1500 * time.Millisecond: 2} {
		if got := wholeSeconds(in); got != want {
			t.Errorf("%s is %d s, want %d", in, got, want)
		}
	}
}
