package live

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rs/zerolog"
)

// DefaultImage has what the containers of cases need: busybox, with sh, sleep, cat, mkdir and httpd.
const DefaultImage = "docker.io/library/busybox:latest"

// Placeholders in the command of the agent.
const (
	RuntimeSocket = "{runtime-socket}"
	Kubeconfig    = "{kubeconfig}"
)

// Config says what node to run cases on. Runtime, Kubeconfig, Agent and Node must be set.
type Config struct {
	// Runtime is the path of the runtime's socket.
	Runtime string
	// Kubeconfig is of a user who may make a namespace, and pods in it. AgentKubeconfig is the
	// agent's own; Kubeconfig if it is empty.
	Kubeconfig, AgentKubeconfig string
	// Agent is the command that runs the agent, for sh. It has the placeholders RuntimeSocket, a
	// path, and Kubeconfig, a file.
	Agent string
	// Node is the name of the Node object.
	Node string
	// Manifests is the directory from which the agent reads static pods. Empty: cases with static
	// pods are refused.
	Manifests string
	// Image is what containers are made of; DefaultImage if it is empty.
	Image string
	// KillRuntime kills the runtime and starts it again so much later. Nil: cases that kill it are
	// refused.
	KillRuntime func(ctx context.Context, down time.Duration) error
	// Settle is how long all is to stay well at the end of a case, Patience how long it may take
	// to get so, and how long an operation waits for its state: 3 s and 15 min if they are zero.
	Settle, Patience time.Duration
	// Output gets what the agent prints. Nil: nobody does.
	Output io.Writer
	// Log is told what is done.
	Log zerolog.Logger
}

// Validate says what is wrong with the configuration.
func (c *Config) Validate() error {
	var errs []error
	for _, f := range []struct{ name, value string }{
		{"the runtime's socket", c.Runtime}, {"a kubeconfig", c.Kubeconfig}, {"the command of the agent", c.Agent},
		{"the name of the node", c.Node},
	} {
		if f.value == "" {
			errs = append(errs, errors.New("live runs need "+f.name))
		}
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.AgentKubeconfig == "" {
		c.AgentKubeconfig = c.Kubeconfig
	}
	if c.Image == "" {
		c.Image = DefaultImage
	}
	if c.Settle == 0 {
		c.Settle = 3 * time.Second
	}
	if c.Patience == 0 {
		c.Patience = 15 * time.Minute
	}
	return c
}
