package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// foe is a client that is up to no good.
type foe struct {
	*bed
	// at is the node's server.
	at string
	// known is what it shows if it has a certificate that the node lets in, and unknown if it has none.
	known, unknown *tls.Config
}

// elsewhere is the address that a foe comes from: not the apiserver's.
var elsewhere = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}

// newFoe prepares one.
func newFoe(t *testing.T, b *bed) *foe {
	t.Helper()
	admin := b.plane.AdminConfig()
	pair := check.Value(tls.X509KeyPair(admin.CertData, admin.KeyData))(t)
	f := &foe{bed: b, at: fmt.Sprintf("127.0.0.1:%d", b.node(t).Status.DaemonEndpoints.KubeletEndpoint.Port)}
	f.unknown = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it trusts nobody
	f.known = f.unknown.Clone()
	f.known.Certificates = []tls.Certificate{pair}
	return f
}

// dial connects, and no more.
func (f *foe) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{LocalAddr: elsewhere, Timeout: patience}
	return d.DialContext(ctx, "tcp", f.at)
}

// connect also shakes hands, for HTTP/1.1 if protocols are not given.
func (f *foe) connect(ctx context.Context, as *tls.Config, protocols ...string) (*tls.Conn, error) {
	bare, err := f.dial(ctx)
	if err != nil {
		return nil, err
	}
	as = as.Clone()
	as.NextProtos = protocols
	conn := tls.Client(bare, as)
	if err := conn.HandshakeContext(ctx); err != nil {
		bare.Close()
		return nil, err
	}
	return conn, nil
}

// ask sends text as it is, and gives the answer: its status and as much of its body as fits into a page.
// A connection that is closed without one is status 0.
func (f *foe) ask(ctx context.Context, as *tls.Config, text string) (status int, body string, err error) {
	conn, err := f.connect(ctx, as)
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // it is a socket
	// What is refused in the middle is answered all the same.
	go io.WriteString(conn, text) //nolint:errcheck // see above
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			return 0, "", err
		}
		return 0, "", nil
	}
	defer answer.Body.Close()
	page, _ := io.ReadAll(io.LimitReader(answer.Body, 4096)) //nolint:errcheck // as much as there is
	return answer.StatusCode, string(page), nil
}

// cost is what the agent takes of the machine.
type cost struct {
	goroutines, files int
	memory            int64
}

func (b *bed) cost(t *testing.T) cost {
	t.Helper()
	tree := check.Value(b.Tree(t.Context()))(t)
	files := check.Value(os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.PID())))(t)
	return cost{tree.Goroutines, len(files), b.resident(t)}
}

// What an attack may cost, while it goes on and after it.
const (
	mostWhile  = 192 << 20
	mostAfter  = 96 << 20 // the collector gives memory back when it likes
	mostExtras = 40       // goroutines and files: connections to the apiserver come and go
)

// settled waits until the agent has what it had.
func (f *foe) settled(t *testing.T, before cost) {
	t.Helper()
	var now cost
	f.await(t, "the agent has let go of it all", func() error {
		now = f.cost(t)
		if now.goroutines > before.goroutines+mostExtras || now.files > before.files+mostExtras || now.memory > before.memory+mostAfter {
			return fmt.Errorf("it has %+v, and had %+v", now, before)
		}
		return nil
	})
	t.Logf("before %+v, after %+v", before, now)
}

// others are users of the node who want to go on working: kubectl exec and logs, over and over.
type others struct {
	end   context.CancelFunc
	ended sync.WaitGroup
	mu    sync.Mutex
	// done counts what went well; slowest is how long the slowest took; wrong is what did not go well.
	done    int
	slowest time.Duration
	wrong   []string
}

func (b *bed) onlookers(t *testing.T) *others {
	o := &others{}
	var ctx context.Context
	ctx, o.end = context.WithCancel(t.Context())
	// kubectl discards what a command says before all its streams are there.
	for _, args := range [][]string{{"exec", "app", "--", "/work", "sleep", "500ms", "then", "print", "well"}, {"logs", "--tail=1", "talks"}} {
		o.ended.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				s := b.do(t, nil, args...)
				took := time.Since(began)
				o.mu.Lock()
				o.done++
				o.slowest = max(o.slowest, took)
				if s.code != 0 || s.out == "" {
					o.wrong = append(o.wrong, fmt.Sprintf("%s: %+v", args, s))
				}
				o.mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	return o
}

// stop ends them, and says how they fared.
func (o *others) stop(t *testing.T) {
	t.Helper()
	o.end()
	o.ended.Wait()
	t.Logf("others had %d answers meanwhile, the slowest after %s", o.done, o.slowest)
	for _, w := range o.wrong {
		t.Error(w)
	}
}

// TestHostileClients has all kinds of clients at the port of a node that people work with. Each gets a
// clear answer or none; nothing of it stays; and others notice nothing.
//
//tier:real
func TestHostileClients(t *testing.T) {
	t.Parallel()
	b := started(t, "hostile", callable(t))
	b.create(t, b.pod("app", func(s *v1.PodSpec) { work("listen 9000")(s) }))
	b.create(t, b.pod("talks", work("lines 2000 then sleep")))
	b.awaitPod(t, "app", "is ready", ready)
	b.awaitPod(t, "talks", "is ready", ready)
	if s := b.do(t, nil, "exec", "app", "--", "/work", "id"); s.code != 0 {
		t.Fatalf("%+v", s)
	}
	f := newFoe(t, b)
	before, since := b.cost(t), condition(b.node(t), v1.NodeReady).LastTransitionTime
	o := b.onlookers(t)
	most := make(chan int64)
	over := make(chan struct{})
	go func() {
		highest := before.memory
		for {
			select {
			case <-over:
				most <- highest
				return
			case <-time.After(50 * time.Millisecond):
				highest = max(highest, b.resident(t))
			}
		}
	}()
	t.Run("quick", func(t *testing.T) {
		for _, a := range attacks {
			t.Run(a.name, func(t *testing.T) {
				began := time.Now()
				a.make(t, f)
				t.Logf("%s", time.Since(began))
				f.settled(t, before)
			})
		}
	})
	t.Run("slow", f.slow)
	f.settled(t, before)
	close(over)
	highest := <-most
	t.Logf("the agent had %d MiB before, and %d MiB at the most", before.memory>>20, highest>>20)
	check.AtMost(t, highest, before.memory+mostWhile, "%d MiB more were taken", (highest-before.memory)>>20)
	o.stop(t)
	if c := condition(b.node(t), v1.NodeReady); c.Status != v1.ConditionTrue || !c.LastTransitionTime.Equal(&since) {
		t.Errorf("the node is %+v", c)
	}
	check.None(t, processes(t, foesMark), "left")
	for _, name := range []string{"app", "talks"} {
		if p := b.get(t, name); p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("%s: %s", name, shown(p))
		}
	}
}

// awaitClosed reads until the other side closes, and says how long that took from began.
func awaitClosed(t *testing.T, conn net.Conn, began time.Time) time.Duration {
	t.Helper()
	conn.SetReadDeadline(began.Add(patience)) //nolint:errcheck // it is a socket
	_, err := io.Copy(io.Discard, conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it is open after %s", time.Since(began))
	}
	return time.Since(began)
}

// slow are clients that send a byte now and then, all at once. Each is cut off.
func (f *foe) slow(t *testing.T) {
	const (
		each = 20
		most = 45 * time.Second // a request is given half a minute
	)
	var all sync.WaitGroup
	for name, c := range map[string]struct {
		as   *tls.Config
		text string
	}{
		"header of a stranger": {f.unknown, "GET /pods HTTP/1.1\r\nHost: n\r\nX-A: "},
		"request line":         {f.unknown, "GET /"},
		"body of a stranger":   {f.unknown, "POST /run/a/b/c HTTP/1.1\r\nHost: n\r\nContent-Length: 100000\r\n\r\n"},
		"header":               {f.known, "GET /pods HTTP/1.1\r\nHost: n\r\nX-A: "},
		"body":                 {f.known, "PUT /debug/flags/v HTTP/1.1\r\nHost: n\r\nContent-Length: 100000\r\n\r\n"},
		"chunk":                {f.known, "PUT /debug/flags/v HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked\r\n\r\n30\r\n"},
	} {
		for range each {
			all.Go(func() {
				conn, err := f.connect(t.Context(), c.as)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				defer conn.Close()
				began := time.Now()
				ended := make(chan struct{})
				all.Go(func() {
					for i := 0; ; i++ {
						text := c.text
						if i > 0 {
							text = "a"
						}
						if _, err := io.WriteString(conn, text); err != nil {
							return
						}
						select {
						case <-ended:
							return
						case <-time.After(500 * time.Millisecond):
						}
					}
				})
				check.AtMost(t, awaitClosed(t, conn, began), most, "%s: it took", name)
				close(ended)
			})
		}
	}
	// Those that take nothing of what they asked for hold no stream either, whoever they are.
	before := f.cost(t)
	for _, as := range []*tls.Config{f.unknown, f.unknown, f.unknown, f.unknown, f.known} {
		conn := check.Value(f.connect(t.Context(), as, "h2"))(t)
		defer conn.Close()
		check.Error(t, unread(newFlooder(conn)))
	}
	all.Wait()
	f.await(t, "no stream is held any more", func() error {
		now := f.cost(t)
		return check.That(now.goroutines <= before.goroutines+2*mostExtras, "%+v, and before %+v", now, before)
	})
	check.Error(t, lab.Eventually(t.Context(), patience, "a stranger is answered", func() error {
		status, _, err := f.ask(t.Context(), f.unknown, "GET /pods HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n")
		if err == nil && status != http.StatusUnauthorized {
			err = fmt.Errorf("answered %d", status)
		}
		return err
	}))
}

// foesMark is in the command lines of what foes start.
const foesMark = "/foes-mark"

// request is one of HTTP/1.1, as text.
func request(method, target string, headers ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: n\r\nConnection: close\r\n" + strings.Join(append(headers, "\r\n"), "\r\n")
}
