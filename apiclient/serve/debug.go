package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/component-base/compatibility"
)

// component is what the pages that all of Kubernetes' programs have call this one.
const component = "kubelet"

// ProfilingRoute is /debug/pprof/ (enableProfilingHandler).
func ProfilingRoute() Route {
	return Route{Path: "/debug/pprof/", Methods: []string{http.MethodGet}, Subresources: Proxy, Long: true, // it takes seconds=
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
			case "profile":
				pprof.Profile(w, r)
			case "symbol":
				pprof.Symbol(w, r)
			case "cmdline":
				pprof.Cmdline(w, r)
			case "trace":
				pprof.Trace(w, r)
			default:
				pprof.Index(w, r)
			}
		})}
}

// VerbosityRoute is /debug/flags/v: how much is logged, changed by PUT
// (enableDebugFlagsHandler). set says what is wrong with a value.
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

// taken keeps what the libraries of /flagz and /statusz want to put into a mux.
type taken map[string]http.Handler

// Handle is of the interface that they want.
func (t taken) Handle(path string, h http.Handler) { t[path] = h }

type flags map[string]string

// GetFlagz implements flagz.Reader.
func (f flags) GetFlagz() map[string]string { return f }

// FlagzRoute is /flagz: the flags of the command line that were given, by name.
func FlagzRoute(given map[string]string) Route {
	t := taken{}
	flagz.Install(t, component, flags(given))
	return Route{Path: "/flagz", Methods: []string{http.MethodGet}, Subresources: Configz[:1], Handler: t["/flagz"]}
}

// StatuszRoute is /statusz: what this program is, since when it runs, and which
// paths it answers. version is that of Kubernetes that it is like.
func StatuszRoute(version string, routes []Route) Route {
	paths := []string{"/statusz"}
	for _, r := range routes {
		paths = append(paths, r.Path)
	}
	t := taken{}
	statusz.Install(t, component, statusz.NewRegistry(compatibility.NewEffectiveVersionFromString(version, "", ""), statusz.WithListedPaths(paths)))
	return Route{Path: "/statusz", Methods: []string{http.MethodGet}, Subresources: Statusz, Handler: t["/statusz"]}
}
