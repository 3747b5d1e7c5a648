package kube

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

func aNode(version string) *v1.Node {
	return &v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: version}}
}

// aStore is an apiserver with one Node and one ConfigMap, whose watches end when it is told to.
type aStore struct {
	mu sync.Mutex
	// version is the Node's, maps the ConfigMap's.
	version, maps string
	restart       chan struct{}
	// resumed are the paths of the watches that went on from a version.
	resumed chan string
}

func (s *aStore) state() (version, maps string, restart chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.maps, s.restart
}

// restartAt ends the watches of the Node, and goes on at another version.
func (s *aStore) restartAt(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.maps = version, version
	close(s.restart)
	s.restart = make(chan struct{})
}

func (s *aStore) serve(w http.ResponseWriter, r *http.Request) {
	version, maps, restart := s.state()
	q, isNode := r.URL.Query(), strings.HasSuffix(r.URL.Path, "/nodes")
	if q.Get("watch") == "" {
		give(w, http.StatusOK, &v1.NodeList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: version},
		})
		return
	}
	send := stream(w)
	switch {
	case q.Get("sendInitialEvents") == "":
		s.resumed <- r.URL.Path
	case isNode:
		o := aNode(version)
		send("ADDED", o)
		o.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		send("BOOKMARK", o)
	default:
		send("ADDED", aConfigMap(maps))
		send("BOOKMARK", bookmark(maps))
	}
	if !isNode {
		restart = nil
	}
	select {
	case <-restart:
		send("BOOKMARK", aNode("100")) // a stream without any event is not resumed
	case <-r.Context().Done():
	}
}

// TestRestoredStoreThatIsNewer: a store that was restored and has passed the version of all watches before one was
// resumed is noticed by the lease, which is older than it was. All watches begin anew.
func TestRestoredStoreThatIsNewer(t *testing.T) {
	s := &aStore{version: "100", maps: "130", restart: make(chan struct{}), resumed: make(chan string, 100)}
	lease := &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "n", UID: "l", ResourceVersion: "125"},
	}
	var held sync.Mutex
	c := newClient(t, Config{REST: server(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/leases/") {
			held.Lock()
			defer held.Unlock()
			give(w, http.StatusOK, lease)
			return
		}
		s.serve(w, r)
	})})
	maps := follow(t, c)
	next[port.APIReplaced](t, maps)
	get := func(version string) {
		t.Helper()
		held.Lock()
		lease.ResourceVersion = version
		held.Unlock()
		done := make(chan error, 1)
		key := port.APIKey{Kind: port.LeaseKind, Namespace: lease.Namespace, Name: lease.Name}
		c.Get(t.Context(), key, func(_ port.APIObject, err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	get("125")
	get("126")
	s.restartAt("140")
	if len(maps) != 0 {
		t.Error("a watch began anew although nothing was lost")
	}
	get("110") // as it was when the backup was made
	if o := next[port.APIReplaced](t, maps).Objects[0]; o.GetResourceVersion() != "140" {
		t.Errorf("version %s", o.GetResourceVersion())
	}
	get("111")
	held.Lock()
	lease.UID = "another"
	held.Unlock()
	get("5")
	if len(maps) != 0 {
		t.Error("a watch began anew for another lease")
	}
}

// TestRestoredStore: if the store's version went back behind one that any watch has seen while the watch of
// the Node was away, all watches begin anew, also one whose stream has not ended. If it did not, they go on.
func TestRestoredStore(t *testing.T) {
	s := &aStore{version: "100", maps: "130", restart: make(chan struct{}), resumed: make(chan string, 100)}
	c := newClient(t, Config{REST: server(t, s.serve)})
	maps := follow(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	nodes, done := make(chan port.APIChange, 100), make(chan struct{})
	c.Watch(ctx, port.Selection{Kind: port.NodeKind, Field: "metadata.name=n"}, func(c port.APIChange) { nodes <- c }, func(error) { close(done) })
	t.Cleanup(func() { cancel(); <-done })
	next[port.APIReplaced](t, maps)
	next[port.APIReplaced](t, nodes)
	s.restartAt("140") // nothing is lost: the watch goes on
	if path := <-s.resumed; !strings.HasSuffix(path, "/nodes") {
		t.Errorf("%s went on", path)
	}
	s.restartAt("120") // the Node's version is older than that
	for _, changes := range []<-chan port.APIChange{nodes, maps} {
		if o := next[port.APIReplaced](t, changes).Objects[0]; o.GetResourceVersion() != "120" {
			t.Errorf("version %s", o.GetResourceVersion())
		}
	}
	if len(s.resumed) != 0 {
		t.Errorf("%s went on from a version of before", <-s.resumed)
	}
}
