package live

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/apiclient/kube"
)

// cluster is the apiserver, past the proxies, as the user of Config.Kubeconfig.
type cluster struct {
	client    *rest.RESTClient
	params    runtime.ParameterCodec
	decoder   runtime.Decoder
	namespace string
}

func newCluster(kubeconfig, namespace string) (*cluster, error) {
	config, err := kube.Load(kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion, config.QPS = "/api", &v1.SchemeGroupVersion, -1
	codecs := serializer.NewCodecFactory(scheme)
	config.NegotiatedSerializer = codecs.WithoutConversion()
	config.UserAgent = "troupe-chaos-live"
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &cluster{
		client: client, params: runtime.NewParameterCodec(scheme), decoder: codecs.UniversalDeserializer(),
		namespace: namespace,
	}, nil
}

// node is the Node object, nil if there is none.
func (c *cluster) node(ctx context.Context, name string) (*v1.Node, error) {
	n := &v1.Node{}
	err := c.client.Get().Resource("nodes").Name(name).Do(ctx).Into(n)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return n, err
}

func (c *cluster) deleteNode(ctx context.Context, name string) error {
	return gone(c.client.Delete().Resource("nodes").Name(name).Do(ctx).Error())
}

func (c *cluster) makeNamespace(ctx context.Context) error {
	n := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: c.namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "troupe-chaos-live"},
	}}
	return c.client.Post().Resource("namespaces").Body(n).Do(ctx).Error()
}

func (c *cluster) deleteNamespace(ctx context.Context) error {
	return gone(c.client.Delete().Resource("namespaces").Name(c.namespace).Do(ctx).Error())
}

// gone is nil if what failed is only that there is nothing to delete.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// accountPatience is how long the service account of a new namespace may take to be there.
const accountPatience = 30 * time.Second

// create makes a pod. Admission may want the service account of the namespace, which a controller
// makes a moment after the namespace.
func (c *cluster) create(ctx context.Context, p *v1.Pod) error {
	for end := time.Now().Add(accountPatience); ; {
		err := c.client.Post().Namespace(c.namespace).Resource("pods").Body(p).Do(ctx).Error()
		if !apierrors.IsForbidden(err) || time.Now().After(end) {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// remove deletes a pod, with its own grace if none is given. One that is not there is no error.
func (c *cluster) remove(ctx context.Context, name string, grace *int64) error {
	return gone(c.client.Delete().Namespace(c.namespace).Resource("pods").Name(name).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: grace}).Do(ctx).Error())
}

// image gives a container of a pod another image. kind is containers or initContainers.
func (c *cluster) image(ctx context.Context, pod, kind, container, image string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		kind: []map[string]string{{"name": container, "image": image}},
	}})
	if err != nil {
		return err
	}
	return gone(c.client.Patch(types.StrategicMergePatchType).Namespace(c.namespace).Resource("pods").Name(pod).
		Body(patch).Do(ctx).Error())
}

func (c *cluster) list(ctx context.Context) (*v1.PodList, error) {
	l := &v1.PodList{}
	return l, c.client.Get().Namespace(c.namespace).Resource("pods").Do(ctx).Into(l)
}

// follow tells seen of each version of each pod of the namespace until ctx ends. The namespace is
// empty when it begins. A watch that breaks goes on where it was, or begins with a list.
func (c *cluster) follow(ctx context.Context, seen func(p *v1.Pod, gone bool)) error {
	begin, err := c.list(ctx)
	if err != nil {
		return err
	}
	f := follower{cluster: c, seen: seen, known: map[types.UID]*v1.Pod{}, version: begin.ResourceVersion}
	go func() {
		for ctx.Err() == nil {
			if err := f.watch(ctx); err != nil {
				_ = pause(ctx, time.Second) // the loop looks at ctx
			}
		}
	}()
	return nil
}

type follower struct {
	*cluster
	seen    func(p *v1.Pod, gone bool)
	known   map[types.UID]*v1.Pod
	version string // empty: a list comes first
}

func (f *follower) watch(ctx context.Context) error {
	if f.version == "" {
		if err := f.again(ctx); err != nil {
			return err
		}
	}
	w, err := f.client.Get().Namespace(f.namespace).Resource("pods").
		VersionedParams(&metav1.ListOptions{Watch: true, ResourceVersion: f.version}, f.params).Watch(ctx)
	if err != nil {
		f.version = ""
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		p, is := e.Object.(*v1.Pod)
		if !is {
			f.version = "" // the apiserver has forgotten the version
			return apierrors.FromObject(e.Object)
		}
		f.version = p.ResourceVersion
		f.tell(p, e.Type == watch.Deleted)
	}
	return nil
}

func (f *follower) tell(p *v1.Pod, gone bool) {
	if f.known[p.UID] = p; gone {
		delete(f.known, p.UID)
	}
	f.seen(p, gone)
}

// again lists, and tells what has changed meanwhile.
func (f *follower) again(ctx context.Context) error {
	l, err := f.list(ctx)
	if err != nil {
		return err
	}
	there := map[types.UID]bool{}
	for i := range l.Items {
		p := &l.Items[i]
		if there[p.UID] = true; f.known[p.UID] == nil || f.known[p.UID].ResourceVersion != p.ResourceVersion {
			f.tell(p, false)
		}
	}
	for uid, p := range f.known {
		if !there[uid] {
			f.tell(p, true)
		}
	}
	f.version = l.ResourceVersion
	return nil
}

// pause waits, or fails when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// until asks each 100 ms whether something is so, for at most d.
func until(ctx context.Context, d time.Duration, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		done, err := is()
		if done {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			if err != nil {
				return fmt.Errorf("%s: not within %s: %w", what, d, err)
			}
			return fmt.Errorf("%s: not within %s", what, d)
		}
	}
}
