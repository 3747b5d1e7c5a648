package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// View is the agent's answer to /v1/pods, and what `troupe pods --json` prints.
type View struct {
	Node       string    `json:"node"`
	Ready      bool      `json:"ready"`
	WaitingFor []string  `json:"waitingFor"`
	Pods       []Pod     `json:"pods"`
	Problems   []Problem `json:"problems"`
	// Runtime is set while the runtime does not answer.
	Runtime *struct {
		Message string `json:"message"`
	} `json:"runtime"`
}

// Problem is what is wrong with a manifest.
type Problem struct {
	Source  string `json:"source"`
	Field   string `json:"field"`
	Value   string `json:"value"`
	Message string `json:"message"`
}

// Pod is one pod as the agent sees it.
type Pod struct {
	Namespace  string      `json:"namespace"`
	Name       string      `json:"name"`
	UID        string      `json:"uid"`
	Source     string      `json:"source"`
	Life       string      `json:"life"`
	Phase      string      `json:"phase"`
	Ready      bool        `json:"ready"`
	Restarts   int         `json:"restarts"`
	IP         string      `json:"ip"`
	Reason     string      `json:"reason"`
	Message    string      `json:"message"`
	Problem    string      `json:"problem"`
	Containers []Container `json:"containers"`
	Doing      []string    `json:"doing"`
}

// Container is one container as the agent sees it.
type Container struct {
	Name       string     `json:"name"`
	Kind       string     `json:"kind"`
	ID         string     `json:"id"`
	State      string     `json:"state"`
	Ready      bool       `json:"ready"`
	Restarts   int        `json:"restarts"`
	Reason     string     `json:"reason"`
	Message    string     `json:"message"`
	ExitCode   *int       `json:"exitCode"`
	StartedAt  *time.Time `json:"startedAt"`
	FinishedAt *time.Time `json:"finishedAt"`
}

// Pod finds a pod by the name in its manifest.
func (v View) Pod(name string) (Pod, bool) {
	for _, p := range v.Pods {
		if p.Name == name+"-"+NodeName || p.Name == name {
			return p, true
		}
	}
	return Pod{}, false
}

// Container finds a container by name; the zero value if there is none.
func (p Pod) Container(name string) Container {
	for _, c := range p.Containers {
		if c.Name == name {
			return c
		}
	}
	return Container{}
}

// Running is nil if the pod and all its containers that go on for ever run.
func (p Pod) Running() error {
	if p.Phase != "Running" {
		return fmt.Errorf("pod %s is %s (%s) %s %s", p.Name, p.Phase, p.Life, p.Reason, p.Problem)
	}
	for _, c := range p.Containers {
		if c.Kind != "init" && c.State != "running" {
			return fmt.Errorf("container %s of pod %s is %s %s", c.Name, p.Name, c.State, c.Reason)
		}
	}
	return nil
}

// Tree is the agent's answer to /v1/tree.
type Tree struct {
	// Goroutines of the whole process, 0 if it does not say.
	Goroutines int     `json:"goroutines"`
	Actors     []Actor `json:"actors"`
}

// Actor is one actor.
type Actor struct {
	Path     string   `json:"path"`
	Kind     string   `json:"kind"`
	Status   string   `json:"status"`
	Restarts int      `json:"restarts"`
	Crashes  int      `json:"crashes"`
	Depth    int      `json:"depth"`
	Effects  []Effect `json:"effects"`
}

// Effect is something under way in the world outside.
type Effect struct {
	Kind   string    `json:"kind"`
	Object string    `json:"object"`
	Lane   string    `json:"lane"`
	Phase  any       `json:"phase"`
	Since  time.Time `json:"since"`
}

// Event is something that users should see.
type Event struct {
	Pod     string `json:"pod"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Events asks the running agent for the events of a static pod, by the name in its manifest.
func (a *Agent) Events(ctx context.Context, name string) ([]Event, error) {
	return a.EventsOf(ctx, "default/"+name+"-"+NodeName)
}

// EventsOf asks the running agent for the events of a pod, by its namespace/name.
func (a *Agent) EventsOf(ctx context.Context, pod string) ([]Event, error) {
	var events []Event
	text, err := a.get(ctx, "/v1/events?pod="+pod)
	if err == nil {
		err = json.Unmarshal(text, &events)
	}
	if err != nil {
		err = fmt.Errorf("ask for events: %w", err)
	}
	return events, err
}

// Pods asks the running agent for its pods.
func (a *Agent) Pods(ctx context.Context) (View, error) {
	var v View
	text, err := a.get(ctx, "/v1/pods")
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		err = fmt.Errorf("ask for pods: %w", err)
	}
	return v, err
}

// Tree asks the running agent for its actors.
func (a *Agent) Tree(ctx context.Context) (Tree, error) {
	var t Tree
	text, err := a.get(ctx, "/v1/tree")
	if err == nil && strings.HasPrefix(strings.TrimSpace(string(text)), "[") {
		err = json.Unmarshal(text, &t.Actors)
	} else if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		err = fmt.Errorf("ask for the tree: %w", err)
	}
	return t, err
}

func (a *Agent) get(ctx context.Context, path string) (_ []byte, err error) {
	defer check.Return(&err)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	socket := filepath.Join(a.Root(), "troupe.sock")
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}
	req := check.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://troupe"+path, nil))
	resp := check.Must((&http.Client{Transport: transport}).Do(req))
	defer resp.Body.Close()
	const enough = 64 << 20
	text, err := io.ReadAll(io.LimitReader(resp.Body, enough))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	return text, err
}
