package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/supervisor/timeline"
)

// notFound lists the valid paths.
const notFound = "not found; the paths are /, /v1/tree, /v1/pods, /v1/gone, /v1/events?pod=namespace/name, " +
	"/v1/timeline?pod=namespace/name, /v1/deadletters and /healthz"

func handler(c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/tree", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, c.Tree()) })
	mux.HandleFunc("GET /v1/pods", func(w http.ResponseWriter, r *http.Request) {
		view, err := askPods(r.Context(), c)
		if err != nil {
			refuse(w, http.StatusServiceUnavailable,
				fmt.Sprintf("the podview actor does not answer: %v: see `troupe tree`", err))
			return
		}
		reply(w, http.StatusOK, view)
	})
	mux.HandleFunc("GET /v1/gone", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, c.Gone()) })
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, append([]EventView{}, c.Events(r.URL.Query().Get("pod"))...))
	})
	mux.HandleFunc("GET /v1/timeline", c.timeline)
	mux.HandleFunc("GET /v1/deadletters", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, append([]timeline.Letter{}, c.Letters()...))
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /{$}", servePage)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "this endpoint is read-only")
			return
		}
		refuse(w, http.StatusNotFound, notFound)
	})
	return limit(localOnly(mux))
}

func askPods(ctx context.Context, c Config) (podview.View, error) {
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	return c.Pods(ctx)
}

// timeline answers with what happened to a pod and, if the podview actor answers,
// with how it is now.
func (c Config) timeline(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("pod")
	if name == "" {
		refuse(w, http.StatusBadRequest, "pod parameter is missing: /v1/timeline?pod=namespace/name")
		return
	}
	story, err := c.Timeline(name)
	if err != nil {
		status := http.StatusNotFound
		if _, is := errors.AsType[*timeline.AmbiguousError](err); is {
			status = http.StatusConflict
		}
		refuse(w, status, err.Error())
		return
	}
	out := Timeline{View: story, At: time.Now()}
	view, err := askPods(r.Context(), c)
	if err != nil {
		out.Silent = fmt.Sprintf("the podview actor does not answer: %v: see `troupe tree`", err)
	}
	for i := range view.Pods {
		if view.Pods[i].UID == story.UID {
			out.Pod = &view.Pods[i]
		}
	}
	reply(w, http.StatusOK, out)
}
