package kube

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/rest"
)

const goodKubeconfig = `apiVersion: v1
kind: Config
current-context: main
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:6443", certificate-authority: ca.crt}}]
contexts: [{name: main, context: {cluster: lab, user: node}}]
users: [{name: node, user: {client-certificate: node.crt, client-key: node.key}}]
`

func TestLoad(t *testing.T) {
	cert, key := newPair(t, "n", time.Now(), time.Now().Add(time.Hour))
	for _, c := range []struct {
		name, from, to string
		says           string // empty: it works
	}{
		{"good", "", "", ""},
		{"not there", "*", "", "no such file"},
		{"no YAML", "apiVersion", "\t", "yaml"},
		{"unknown kind", "kind: Config", "kind: Pod", "Pod"},
		{"no context", "current-context: main", "", `current-context "" is not among`},
		{"other context", "current-context: main", "current-context: x", `current-context "x" is not among`},
		{"other cluster", "cluster: lab,", "cluster: x,", `cluster "x", which does not exist`},
		{"other user", "user: node}", "user: x}", `user "x", which does not exist`},
		{"no authority", "ca.crt", "no.crt", "no.crt"},
		{"no certificate", "node.crt", "no.crt", "no.crt"},
		{"no key", "node.key", "no.key", "no.key"},
		{"a broken key", "node.key", "ca.crt", "key"},
		{"no server", `server: "https://127.0.0.1:6443", `, "", "server"},
		{"plugin", "client-certificate: node.crt, client-key: node.key", "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}", ""},
		{"bad plugin", "client-certificate: node.crt, client-key: node.key", "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws}", "interactiveMode"},
		{"token file", "client-certificate: node.crt, client-key: node.key", "tokenFile: token", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "kubeconfig")
			write(t, filepath.Join(dir, "ca.crt"), cert)
			write(t, filepath.Join(dir, "node.crt"), cert)
			write(t, filepath.Join(dir, "node.key"), key)
			write(t, filepath.Join(dir, "token"), []byte("abc"))
			if c.from != "*" {
				if !strings.Contains(goodKubeconfig, c.from) {
					t.Fatalf("%q is not in the file", c.from)
				}
				write(t, path, []byte(strings.Replace(goodKubeconfig, c.from, c.to, 1)))
			}
			got, err := Load(path)
			if c.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				client, err := New(Config{REST: got, Version: "1"})
				if err != nil {
					t.Fatal(err)
				}
				client.Close()
				return
			}
			if err == nil {
				_, err = New(Config{REST: got, Version: "1"})
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || strings.Count(err.Error(), path) > 1 {
				t.Errorf("error %q, want one line that says %q", err, c.says)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	good := func() Config { return Config{REST: &rest.Config{Host: "https://x"}, Version: "1", Log: zerolog.Nop()} }
	for says, change := range map[string]func(*Config){
		"":                 func(*Config) {},
		"address":          func(c *Config) { c.REST = nil },
		"no server":        func(c *Config) { c.REST.Host = "" },
		"version":          func(c *Config) { c.Version = "" },
		"burst -1":         func(c *Config) { c.Burst = -1 },
		"event burst -1":   func(c *Config) { c.EventBurst = -1 },
		"transport":        func(c *Config) { c.REST.Transport = &trips{} },
		"missing protocol": func(c *Config) { c.REST.Host = "://x" },
	} {
		c := good()
		change(&c)
		if err := c.Validate(); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
