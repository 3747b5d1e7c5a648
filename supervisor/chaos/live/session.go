package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/cri/readback"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/apiproxy"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/tcpproxy"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// Session is a node with proxies around its agent, and a namespace of its own. It runs one case
// at a time. Close takes all of it away.
type Session struct {
	config    Config
	dir       string
	namespace string
	// images are two names of the same content, for cases that give a container another one.
	images [2]string
	// fresh: there was no Node object before.
	fresh bool

	cluster *cluster
	runtime *realRuntime
	cri     *criproxy.Proxy
	api     *apiproxy.Proxy
	way     *tcpproxy.Proxy
	agent   *agent
	stop    context.CancelFunc

	mu      sync.Mutex
	cur     *world // the case that runs, nil for none
	foreign string // the node that the agent is, if it is another
	// happened has a value when there is something new to look at.
	happened chan struct{}
}

const (
	nodePatience  = 2 * time.Minute
	cleanPatience = 2 * time.Minute
)

// Start makes the namespace, starts the proxies and the agent, and waits for its node.
func Start(ctx context.Context, config Config) (_ *Session, err error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Session{
		config: config.withDefaults(), namespace: fmt.Sprintf("troupe-chaos-%08x", rand.Uint32()),
		happened: make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
			defer cancel()
			err = errors.Join(err, s.Close(clean))
		}
	}()
	if s.cluster, err = newCluster(s.config.Kubeconfig, s.namespace); err != nil {
		return nil, err
	}
	n, err := s.cluster.node(ctx, s.config.Node)
	if err != nil {
		return nil, fmt.Errorf("look for node %s: %w", s.config.Node, err)
	}
	s.fresh = n == nil
	if s.runtime, err = newRuntime(s.config.Runtime, s.namespace); err != nil {
		return nil, err
	}
	byContent, err := s.runtime.pull(ctx, s.config.Image)
	if err != nil {
		return nil, err
	}
	s.images = [2]string{s.config.Image, byContent}
	if err := s.proxies(); err != nil {
		return nil, err
	}
	if err := s.cluster.makeNamespace(ctx); err != nil {
		return nil, fmt.Errorf("make namespace %s: %w", s.namespace, err)
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.runtime.changed, s.runtime.cause = s.changed, s.cause
	s.runtime.follow(following)
	if err := s.cluster.follow(following, s.shown); err != nil {
		return nil, fmt.Errorf("watch the pods of namespace %s: %w", s.namespace, err)
	}
	if err := s.agent.start(); err != nil {
		return nil, err
	}
	return s, s.awaitNode(ctx)
}

// proxies start, and with them the agent is prepared.
func (s *Session) proxies() (err error) {
	// Not below a directory that may have a long name: the path of a socket is short.
	if s.dir, err = os.MkdirTemp("", "troupe-chaos-"); err != nil {
		return err
	}
	socket, kubeconfig := filepath.Join(s.dir, "runtime.sock"), filepath.Join(s.dir, "kubeconfig")
	s.cri, err = criproxy.Start(criproxy.Config{
		Socket: socket, Target: s.config.Runtime, Fault: s.called, Event: s.event,
	})
	if err != nil {
		return err
	}
	if _, err := kube.Load(s.config.AgentKubeconfig); err != nil {
		return err
	}
	if s.api, err = apiproxy.New(s.config.AgentKubeconfig); err != nil {
		return err
	}
	s.api.Intercept(s.asked)
	if s.way, err = tcpproxy.New(s.api.Address()); err != nil {
		return err
	}
	if err := s.api.KubeconfigVia(s.way.Address(), s.config.AgentKubeconfig, kubeconfig); err != nil {
		return err
	}
	if s.config.Output == nil {
		s.config.Output = io.Discard
	}
	s.agent = newAgent(&s.config, socket, kubeconfig)
	return nil
}

// awaitNode waits until the node of the agent is ready, and is the one that was named.
func (s *Session) awaitNode(ctx context.Context) error {
	name := s.config.Node
	var stop error
	err := until(ctx, nodePatience, "node "+name+" is ready", func() (bool, error) {
		s.mu.Lock()
		foreign := s.foreign
		s.mu.Unlock()
		if foreign != "" {
			stop = fmt.Errorf("the agent is of node %s, not of %s: check --agent and --node", foreign, name)
			return true, nil
		}
		if !s.agent.running() {
			stop = errors.New("the agent has ended: see what it printed")
			return true, nil
		}
		n, err := s.cluster.node(ctx, name)
		if err != nil || n == nil {
			return false, err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	return errors.Join(stop, err)
}

// Close stops the agent and takes the session's pods, namespace and files away. It can be called
// at any time.
func (s *Session) Close(ctx context.Context) error {
	var errs []error
	if s.stop != nil {
		if s.agent.running() {
			errs = append(errs, s.clean(ctx))
		}
		s.stop()
	}
	if s.agent != nil {
		s.agent.stop()
	}
	if s.cluster != nil && s.stop != nil {
		errs = append(errs, s.cluster.deleteNamespace(ctx))
		if s.fresh && s.foreign == "" {
			errs = append(errs, s.cluster.deleteNode(ctx, s.config.Node))
		}
	}
	if s.way != nil {
		s.way.Close()
	}
	if s.api != nil {
		s.api.Close()
	}
	if s.cri != nil {
		errs = append(errs, s.cri.Close())
	}
	if s.runtime != nil {
		errs = append(errs, s.runtime.conn.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// clean takes the pods of the namespace away, and their manifests.
func (s *Session) clean(ctx context.Context) error {
	if s.config.Manifests != "" {
		files, err := filepath.Glob(filepath.Join(s.config.Manifests, manifestPrefix+s.namespace+"-*"))
		for _, f := range files {
			err = errors.Join(err, os.Remove(f))
		}
		if err != nil {
			return err
		}
	}
	pods, err := s.cluster.list(ctx)
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if err := s.cluster.remove(ctx, pods.Items[i].Name, new(int64)); err != nil {
			return err
		}
	}
	return until(ctx, cleanPatience, "nothing is left of the pods of namespace "+s.namespace, func() (bool, error) {
		pods, err := s.cluster.list(ctx)
		if err != nil {
			return false, err
		}
		return len(pods.Items)+s.runtime.objects() == 0, s.runtime.look(ctx)
	})
}

// asked is each request of the agent to the apiserver. An agent of another node gets nowhere.
func (s *Session) asked(w http.ResponseWriter, r *http.Request, next http.Handler) {
	q, known := requestOf(r)
	if known && q.kind == port.PodKind && r.Method == http.MethodPost {
		q.name = s.created(r)
	}
	var e plan.Effect
	var over <-chan struct{}
	s.mu.Lock()
	if known {
		s.recognize(&q, r.URL.Query().Get("fieldSelector"))
		if s.cur != nil {
			e, over = s.cur.asked(&q), s.cur.over
		}
	}
	foreign := s.foreign != ""
	s.mu.Unlock()
	if foreign {
		e = plan.Effect{Do: plan.Fail}
	}
	onRequest(e, over, w, r, next)
}

// created is the name of the pod that a request makes. The request can be read again.
func (s *Session) created(r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return "" // the client has gone
	}
	o, _, err := s.cluster.decoder.Decode(body, nil, nil)
	if p, is := o.(*v1.Pod); err == nil && is {
		return p.Name
	}
	return ""
}

// recognize finds out which node the agent is.
func (s *Session) recognize(q *request, field string) {
	name := ""
	switch {
	case q.kind == port.NodeKind:
		name = q.name
	case q.kind == port.PodKind && q.name == "":
		name, _ = strings.CutPrefix(field, "spec.nodeName=")
	}
	if name != "" && name != s.config.Node {
		s.foreign = name
	}
}

// called is each call of the runtime by the agent, and event each event of the runtime to it.
func (s *Session) called(c criproxy.Call) *criproxy.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == nil {
		return nil
	}
	return onCall(c.Method, s.cur.called(&c))
}

func (s *Session) event(e *runtimeapi.ContainerEventResponse) criproxy.Fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, known := readback.Event(e)
	if s.cur == nil || !known {
		return criproxy.Fate{}
	}
	return s.cur.event(got)
}

// changed is each change of what the runtime has of the namespace.
func (s *Session) changed(t simcri.Transition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur != nil {
		s.cur.changed(t)
	}
	s.wake()
}

// cause is why a container has ended.
func (s *Session) cause(id, sandbox string, code int32) simcri.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == nil {
		return simcri.ByItself
	}
	return s.cur.cause(id, sandbox, code)
}

// shown is each version of a pod of the namespace. What the agent tells of the runtime must be
// known from the runtime too by then, so that no rule is asked before it has seen it.
func (s *Session) shown(p *v1.Pod, gone bool) {
	if podspec.Finished(p) {
		_ = s.runtime.look(context.Background()) // a runtime that was killed tells nothing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur != nil {
		s.cur.shown(p, gone)
	}
	s.wake()
}

// wake says that there is something new to look at.
func (s *Session) wake() {
	select {
	case s.happened <- struct{}{}:
	default:
	}
}
