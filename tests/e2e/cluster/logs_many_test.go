package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// client calls the node itself, past the apiserver, as an administrator; which certificate it shows is
// not looked at.
func (b *bed) client(t *testing.T) (client *http.Client, at string) {
	t.Helper()
	config := b.plane.AdminConfig()
	config.CAData, config.Insecure = nil, true
	client = check.Value(rest.HTTPClientFor(config))(t)
	t.Cleanup(client.CloseIdleConnections)
	return client, fmt.Sprintf("https://127.0.0.1:%d", b.node(t).Status.DaemonEndpoints.KubeletEndpoint.Port)
}

// resident is the memory of the agent, in bytes.
func (b *bed) resident(t *testing.T) int64 { t.Helper(); return b.memory(t, "VmRSS") }

// memory is a line of proc_pid_status(5), in bytes.
func (b *bed) memory(t *testing.T, line string) int64 {
	t.Helper()
	text := check.Value(os.ReadFile(fmt.Sprintf("/proc/%d/status", b.PID())))(t)
	for l := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(l, line+": %d kB", &kib); n == 1 { //nolint:errcheck // the count says it
			return kib << 10
		}
	}
	t.Fatalf("the kernel does not say what %s the agent has", line)
	return 0
}

// TestManyFollowers: many follow the logs of pods that write much, all at once. Each gets each
// byte, once; and the agent needs little for it, and no more when they have gone.
//
//tier:all size: followers of logs
func TestManyFollowers(t *testing.T) {
	t.Parallel()
	const (
		pods          = 10
		rounds, lines = 40, 1000
		mostMemory    = 64 << 20
	)
	followers := lab.Size(20, 200)
	b := started(t, "followers", callable(t))
	step := fmt.Sprintf(" then lines %d then sleep 100ms", lines)
	for i := range pods {
		b.create(t, b.pod(fmt.Sprintf("p%d", i), func(s *v1.PodSpec) {
			work("print begin then await /go" + strings.Repeat(step, rounds))(s)
			s.RestartPolicy = v1.RestartPolicyNever
			s.TerminationGracePeriodSeconds = new(int64(0))
		}))
	}
	for i := range pods {
		b.awaitPod(t, fmt.Sprintf("p%d", i), "is ready", ready)
	}
	want := sha256.New()
	io.WriteString(want, "begin\n") //nolint:errcheck // a hash takes all
	for range rounds {
		for n := range lines {
			fmt.Fprintln(want, "line", n+1) //nolint:errcheck // see above
		}
	}
	client, at := b.client(t)
	before := b.resident(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	all := b.followAll(ctx, t, client, at, pods, followers, want.Sum(nil))
	most, ended := before, make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for looking := true; looking; {
		select {
		case <-ended:
			looking = false
		case <-time.After(50 * time.Millisecond):
		}
		most = max(most, b.resident(t))
	}
	t.Logf("%d followers: the agent had %d MiB before, and %d MiB at the most", followers, before>>20, most>>20)
	if most-before > mostMemory {
		t.Errorf("the agent took %d MiB more for %d followers, want at most %d", (most-before)>>20, followers, mostMemory>>20)
	}
}

// followAll follows the logs of pods p0, p1 and so on, with many of each, and lets the pods go on when
// each follower has something. Each fails the test unless it gets what has the hash want; who waits for
// the result waits for all of them.
func (b *bed) followAll(ctx context.Context, t *testing.T, client *http.Client, at string, pods, followers int, want []byte) *sync.WaitGroup {
	t.Helper()
	var begun, all sync.WaitGroup
	begun.Add(followers)
	for i := range followers {
		all.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once()
			sum := sha256.New()
			n, err := follow(ctx, client, fmt.Sprintf("%s/containerLogs/%s/p%d/app?follow=true", at, b.name, i%pods), sum, once)
			if err != nil || !bytes.Equal(sum.Sum(nil), want) {
				t.Errorf("follower %d: %d bytes that are not those that were written, %v", i, n, err)
			}
		})
	}
	begun.Wait()
	for i := range pods {
		if s := b.do(t, nil, "exec", fmt.Sprintf("p%d", i), "--", "/work", "touch", "/go"); s.code != 0 {
			t.Fatalf("%+v", s)
		}
	}
	return &all
}

// follow reads a log to its end. It calls begun once there is something of it.
func follow(ctx context.Context, client *http.Client, url string, into io.Writer, begun func()) (_ int64, err error) {
	defer check.Return(&err)
	r := check.Must(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))
	answer := check.Must(client.Do(r))
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("answered %s", answer.Status)
	}
	first := make([]byte, 1)
	check.Must(io.ReadFull(answer.Body, first))
	begun()
	check.Must(into.Write(first))
	n, err := io.Copy(into, answer.Body)
	return n + 1, err
}
