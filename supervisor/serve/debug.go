package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"
)

// ProfilingRoute is /debug/pprof/ (enableProfilingHandler). command is the command line that it shows.
func ProfilingRoute(command []string) Route {
	// it takes seconds=N
	return Route{Path: "/debug/pprof/", Methods: []string{http.MethodGet}, Subresources: Proxy, Long: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
			case "profile":
				pprof.Profile(w, r)
			case "symbol":
				pprof.Symbol(w, r)
			case "cmdline":
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				fmt.Fprint(w, strings.Join(command, "\x00"))
			case "trace":
				pprof.Trace(w, r)
			default:
				pprof.Index(w, r)
			}
		})}
}

// VerbosityRoute is /debug/flags/v: PUT changes the log level (enableDebugFlagsHandler). set
// returns what is wrong with a value.
func VerbosityRoute(set func(value string) error) Route {
	const most = 64
	return Route{Path: "/debug/flags/v", Methods: []string{http.MethodPut}, Subresources: Proxy,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			value, err := io.ReadAll(io.LimitReader(r.Body, most))
			if err == nil {
				err = set(strings.TrimSpace(string(value)))
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			fmt.Fprintf(w, "successfully set klog.logging.verbosity to %s", value)
		})}
}
