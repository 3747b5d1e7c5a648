// Package credentialplugins is the adapter of port.CredentialPlugins: it runs the programs of credential provider
// plugins (exec API credentialprovider.kubelet.k8s.io), and reads the docker configuration of the node.
//
// A plugin is a process in a process group of its own, with a guard that ends it when the agent is killed (package
// child). It is killed with its group after a minute, and when it writes more than answerLimit. Nothing that it
// writes is logged but the end of stderr, without the token that it was given.
package credentialplugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/child"
	"github.com/troupe-dev/troupe/supervisor/host/child/guard"
	"github.com/troupe-dev/troupe/supervisor/host/disk/regularfile"
)

const (
	// Timeout is how long a plugin may take, the kubelet's too.
	Timeout = time.Minute
	// answerLimit bounds what a plugin may write to stdout, in bytes, complaintLimit what is kept of stderr.
	answerLimit    = 1 << 20
	complaintLimit = 2000
	// shownLimit bounds what is logged of stderr.
	shownLimit = 400
	// pipeDelay is how long it is waited for processes that a plugin left with its pipes open.
	pipeDelay = time.Second
	// configLimit bounds the docker configuration, in bytes.
	configLimit = 10 << 20
)

// Config is what the adapter needs.
type Config struct {
	// Dir is where the programs are (--image-credential-provider-bin-dir).
	Dir string
	// Root is the root directory of the agent, where the docker configuration is looked for first.
	Root string
	Log  zerolog.Logger
	// Ran is told of each run of a plugin. It must not block.
	Ran func(plugin string, took time.Duration, failed bool)
	// Timeout is shorter in tests; zero is Timeout.
	Timeout time.Duration
}

// Plugins are the plugins of one agent.
type Plugins struct {
	config Config
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	all    sync.WaitGroup
}

var _ port.CredentialPlugins = (*Plugins)(nil)

// New makes the adapter.
func New(c Config) *Plugins {
	if c.Timeout == 0 {
		c.Timeout = Timeout
	}
	p := &Plugins{config: c}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close kills all plugins that run.
func (p *Plugins) Close() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	p.all.Wait()
}

// begin runs f on another goroutine, which Close waits for.
func (p *Plugins) begin(ctx context.Context, f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.all.Go(func() {
		defer rescue.Call(ctx, rescue.Answered)
		f()
	})
	return true
}

// RunPlugin implements port.CredentialPlugins.
func (p *Plugins) RunPlugin(
	ctx context.Context, of *imagepull.Provider, request []byte, done func([]byte, error),
) {
	const verb = "RunCredentialPlugin"
	fail := func(kind port.ErrorKind, detail string) error {
		return &port.Error{Kind: kind, Verb: verb, Object: of.Name, Detail: detail}
	}
	work := func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, p.config.Timeout)
		defer cancel()
		defer context.AfterFunc(p.ctx, cancel)()
		begun := time.Now()
		data, complaint, err := p.run(ctx, of, request)
		if p.config.Ran != nil {
			p.config.Ran(of.Name, time.Since(begun), err != nil)
		}
		switch {
		case err == nil:
			return data, nil
		case complaint != "":
			p.config.Log.Warn().Str("plugin", of.Name).Str("stderr", redact(complaint, request)).
				Msg("stderr of a failed credential provider plugin")
		}
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, fail(port.Deadline, fmt.Sprintf("no answer within %v: it was killed", p.config.Timeout))
		case ctx.Err() != nil:
			return nil, fail(port.Canceled, "the agent does not wait for it any more")
		default:
			return nil, fail(port.Other, err.Error())
		}
	}
	if !p.begin(ctx, func() { rescue.Answer(ctx, work, port.Panicked(verb, of.Name), done) }) {
		done(nil, fail(port.Canceled, "the agent is stopping"))
	}
}

// run runs a plugin. complaint is the end of what it wrote to stderr.
func (p *Plugins) run(
	ctx context.Context, of *imagepull.Provider, request []byte,
) (answer []byte, complaint string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, complaints := &limited{limit: answerLimit, full: cancel}, &guard.Tail{Limit: complaintLimit}
	dir, _ := os.Getwd() // a directory that was removed has no name: then it is /
	err = child.RunProgram(ctx, &guard.Program{
		Path: filepath.Join(p.config.Dir, of.Name), Args: of.Args, Env: append(os.Environ(), of.Env...), Dir: dir,
		Stdin: request, PipeDelay: pipeDelay,
	}, out, complaints)
	switch {
	case out.over():
		return nil, complaints.String(), fmt.Errorf("it wrote more than %d bytes to stdout", answerLimit)
	case err != nil:
		return nil, complaints.String(), err
	}
	return out.bytes(), "", nil
}

// redact makes one line of what a plugin wrote to stderr, without the token that it was given.
func redact(complaint string, request []byte) string {
	var r struct {
		Token string `json:"serviceAccountToken"`
	}
	if json.Unmarshal(request, &r) == nil && r.Token != "" {
		complaint = strings.ReplaceAll(complaint, r.Token, "<token>")
	}
	line := strings.Join(strings.Fields(strings.ToValidUTF8(complaint, "?")), " ")
	if len(line) > shownLimit {
		return "…" + strings.ToValidUTF8(line[len(line)-shownLimit:], "")
	}
	return line
}

// limited keeps what is written, up to a limit; then it calls full, once.
type limited struct {
	limit int
	full  func()
	mu    sync.Mutex
	data  []byte
	more  bool
}

func (l *limited) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.more:
	case len(l.data)+len(data) > l.limit:
		l.more, l.data = true, nil
		l.full()
	default:
		l.data = append(l.data, data...)
	}
	return len(data), nil
}

func (l *limited) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.more
}

func (l *limited) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data
}

// configs are the files of the docker configuration in the order in which a kubelet looks for them.
func (p *Plugins) configs() (paths []string) {
	home, _ := os.UserHomeDir() // none has none
	for _, dir := range []string{p.config.Root, ".", filepath.Join(home, ".docker"), "/.docker"} {
		paths = append(paths, filepath.Join(dir, "config.json"))
	}
	for _, dir := range []string{p.config.Root, ".", home, "/"} {
		paths = append(paths, filepath.Join(dir, ".dockercfg"))
	}
	return paths
}

// DockerConfig implements port.CredentialPlugins. As in a kubelet, a file that is broken does not hide the next one.
func (p *Plugins) DockerConfig(ctx context.Context, done func(data []byte, legacy bool, err error)) {
	const verb = "ReadDockerConfig"
	answer := func(f dockerFile, err error) { done(f.data, f.legacy, err) }
	if !p.begin(ctx, func() { rescue.Answer(ctx, p.dockerConfig, port.Panicked(verb, ""), answer) }) {
		done(nil, false, &port.Error{Kind: port.Other, Verb: verb, Detail: "the agent is stopping"})
	}
}

// dockerFile is a docker configuration of this node.
type dockerFile struct {
	data   []byte
	legacy bool
}

func (p *Plugins) dockerConfig() (none dockerFile, first error) {
	for _, path := range p.configs() {
		legacy := filepath.Base(path) == ".dockercfg"
		data, err := regularfile.Read(path, configLimit)
		if err == nil {
			if _, ok := imagepull.DockerConfig(data, legacy); !ok {
				err = errors.New("it is not a docker configuration")
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		case err == nil:
			if first != nil {
				p.config.Log.Warn().Str("error", first.Error()).Str("used", path).
					Msg("cannot read a docker configuration of this node: the next one is used")
			}
			return dockerFile{data, legacy}, nil
		case first == nil:
			first = &port.Error{Kind: port.Other, Verb: "ReadDockerConfig", Object: path, Detail: err.Error()}
		}
	}
	return none, first
}
