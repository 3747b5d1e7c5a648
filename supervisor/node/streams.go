package node

import (
	"context"

	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/supervisor/serve/streams"
)

// openStreams makes the routes of streams into pods. The streams end with the servers. The containers of a simulated
// runtime have none.
func (d *nodeDaemon) openStreams() ([]serve.Route, error) {
	rt, ok := d.runtime.Runtime.(streams.Runtime)
	if !ok || !*d.Config.Kubelet().EnableDebuggingHandlers {
		return nil, nil
	}
	all, err := streams.New(streams.Config{Runtime: rt, Pods: d.find, WebSocket: d.counters.WebSocket, Log: d.Log})
	if err != nil {
		return nil, err
	}
	d.servers = append(d.servers, func(ctx context.Context) error {
		<-ctx.Done()
		all.Close()
		return nil
	})
	var routes []serve.Route
	// A WebSocket begins with a GET: whoever may only read must not run commands by that.
	verb := "create"
	if d.Config.Options().ExecByGet {
		verb = "" // that of the method
	}
	for _, r := range all.Routes() {
		routes = append(routes, serve.Route{
			Path: r.Path, Methods: r.Methods, Subresources: serve.Proxy, Verb: verb, Long: true, Handler: r.Handler,
		})
	}
	return routes, nil
}
