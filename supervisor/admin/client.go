package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/supervisor/timeline"
)

const (
	clientTimeout = 10 * time.Second
	// answerLimit bounds an answer, in bytes: a tree of 1000 pods has about 1 MB.
	answerLimit = 64 << 20
)

// Client asks an agent over its socket. Every question is a connection of its own.
type Client struct{ Socket string }

// GoneError says that no agent answers.
type GoneError struct {
	Socket string
	Err    error
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("no troupe node answers at %s: is it running with --root-dir %s? (%v)",
		e.Socket, filepath.Dir(e.Socket), e.Err)
}

func (e *GoneError) Unwrap() error { return e.Err }

// Tree gets the live tree.
func (c Client) Tree(ctx context.Context) (Tree, error) { return get[Tree](ctx, c, "/v1/tree") }

// Pods gets the pods.
func (c Client) Pods(ctx context.Context) (podview.View, error) {
	return get[podview.View](ctx, c, "/v1/pods")
}

// Events gets the recent events of a pod (namespace/name), of all if it is empty.
func (c Client) Events(ctx context.Context, pod string) ([]EventView, error) {
	return get[[]EventView](ctx, c, "/v1/events?pod="+url.QueryEscape(pod))
}

// Timeline gets what happened to a pod: namespace/name, name or UID.
func (c Client) Timeline(ctx context.Context, pod string) (Timeline, error) {
	return get[Timeline](ctx, c, "/v1/timeline?pod="+url.QueryEscape(pod))
}

// Letters gets the newest dead letters, oldest first.
func (c Client) Letters(ctx context.Context) ([]timeline.Letter, error) {
	return get[[]timeline.Letter](ctx, c, "/v1/deadletters")
}

func get[T any](ctx context.Context, c Client, path string) (T, error) {
	var out T
	if len(c.Socket) > pathLimit {
		return out, fmt.Errorf("admin socket %s: the path has %d bytes, the limit is %d: choose a shorter --root-dir",
			c.Socket, len(c.Socket), pathLimit)
	}
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	client := http.Client{Transport: c.transport()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+clientHost+path, nil)
	if err != nil {
		return out, err
	}
	response, err := client.Do(request)
	if err != nil {
		return out, c.explain(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return out, c.explain(err)
	}
	if response.StatusCode != http.StatusOK {
		var refused struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(body, &refused) != nil || refused.Error == "" {
			refused.Error = "status " + response.Status
		}
		return out, fmt.Errorf("the node at %s: %s", c.Socket, refused.Error)
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("the node at %s sent an answer that cannot be parsed: %w", c.Socket, err)
	}
	return out, nil
}

// transport reaches the socket, whatever it is asked for.
func (c Client) transport() *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
		},
	}
}

func (c Client) explain(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("permission denied for %s: run this as the user of the node (root)", c.Socket)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the node at %s did not answer within %s", c.Socket, clientTimeout)
	}
	// The innermost: "connection refused", "no such file or directory".
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno
	}
	return &GoneError{Socket: c.Socket, Err: err}
}
