package node

import (
	"context"

	"github.com/troupe-dev/troupe/supervisor/podresources"
	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/supervisor/serve/streams"
)

// openStreams makes the routes of streams into pods, and what ends these streams
// with the agent: it serves like a server. The containers of a simulated runtime
// have none.
func (d *nodeDaemon) openStreams(s serving) ([]serve.Route, func(context.Context) error, error) {
	k := s.options.Config.Kubelet()
	rt, ok := s.runtime.(streams.Runtime)
	if !ok || !*k.EnableDebuggingHandlers {
		return nil, func(ctx context.Context) error { <-ctx.Done(); return nil }, nil
	}
	all, err := streams.New(streams.Config{
		Runtime: rt, Pods: d.find, Log: d.log,
	})
	if err != nil {
		return nil, nil, err
	}
	var routes []serve.Route
	// A WebSocket begins with a GET: whoever may only read must not run commands by that.
	verb := "create"
	if s.options.Config.Options().ExecByGet {
		verb = "" // that of the method
	}
	for _, r := range all.Routes() {
		routes = append(routes, serve.Route{
			Path: r.Path, Methods: r.Methods, Subresources: serve.Proxy, Verb: verb, Long: true, Handler: r.Handler,
		})
	}
	return routes, func(ctx context.Context) error {
		<-ctx.Done()
		all.Close()
		return nil
	}, nil
}

// listenPodResources takes the podresources socket.
func (d *nodeDaemon) listenPodResources(c podresources.Config) (func(context.Context) error, error) {
	c.Pods = d.find
	server, err := podresources.Listen(c)
	if err != nil {
		return nil, err
	}
	return server.Serve, nil
}
