package nodestats

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/supervisor/serve/shared"
)

// Depth is how much a request needs to read.
type Depth uint8

const (
	// Basic is CPU, memory and swap.
	Basic Depth = iota
	// Short is these with limits and pressures, of the parts of the node too.
	Short
	// Full is all of cgroups and networks, and what containers have open.
	Full
	// Disks is all of cgroups and networks, and what there is on disks.
	Disks
)

// Source reads what the node and its pods use now. What could be read comes with
// an error, too. It must end with ctx.
type Source func(ctx context.Context, depth Depth) (usage.Node, []usage.Pod, error)

// Config says what routes are made of.
type Config struct {
	Source Source
	// Cores is how many CPUs the node has now.
	Cores func() int
	// Failed, if not nil, is told what could not be read.
	Failed func(error)
}

// Validate says what is missing.
func (c Config) Validate() error {
	if c.Source == nil || c.Cores == nil {
		return errors.New("nodestats: Source and Cores are required")
	}
	return nil
}

// Routes are all that there is.
func Routes(c Config) ([]serve.Route, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Source = c.sharing()
	return []serve.Route{
		c.metrics("/metrics/resource", Basic, func(n usage.Node, pods []usage.Pod, failed bool) samples {
			return resource(n, pods, failed)
		}),
		c.metrics("/metrics/cadvisor", Full, func(n usage.Node, pods []usage.Pod, failed bool) samples {
			return cadvisor(n, pods, c.Cores(), failed)
		}),
		{
			Path: "/stats/summary", Methods: []string{http.MethodGet, http.MethodPost},
			Subresources: serve.Stats, ReadOnly: true,
			Handler: http.HandlerFunc(c.summary),
		},
	}, nil
}

// sharing is the source of all who ask: who asks while it is read gets the same, of each depth.
func (c Config) sharing() Source {
	type all struct {
		node usage.Node
		pods []usage.Pod
	}
	var of [Disks + 1]shared.Reading[all]
	for depth := range of {
		of[depth].Read = func(ctx context.Context) (all, error) {
			n, pods, err := c.Source(ctx, Depth(depth))
			if err != nil && c.Failed != nil {
				c.Failed(err)
			}
			return all{n, pods}, err
		}
	}
	return func(ctx context.Context, depth Depth) (usage.Node, []usage.Pod, error) {
		got, err := of[depth].Get(ctx)
		return got.node, got.pods, err
	}
}

func (c Config) metrics(path string, depth Depth, made func(usage.Node, []usage.Pod, bool) samples) serve.Route {
	return serve.Route{
		Path: path, Methods: []string{http.MethodGet}, Subresources: serve.Metrics, ReadOnly: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, pods, err := c.Source(r.Context(), depth)
			made(n, pods, err != nil).answer(w, r)
		}),
	}
}

// summary answers /stats/summary. With only_cpu_and_memory=true it reads no disks.
func (c Config) summary(w http.ResponseWriter, r *http.Request) {
	depth, short := Disks, r.FormValue("only_cpu_and_memory") == "true"
	if short {
		depth = Short
	}
	n, pods, err := c.Source(r.Context(), depth)
	if err != nil && len(pods) == 0 {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(usage.Summary(n, pods)) //nolint:errcheck // a client may be gone
}
