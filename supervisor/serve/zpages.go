package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	flagz "k8s.io/apiserver/pkg/server/flagz/api/v1beta1"
	statusz "k8s.io/apiserver/pkg/server/statusz/api/v1beta1"
	"sigs.k8s.io/yaml"
)

// component is this program's name in Kubernetes' z-pages.
const component = "kubelet"

// zpage is a z-page: a text for people, or an object of the group config.k8s.io for a client that
// requests it by name and version (application/json;g=config.k8s.io;v=v1beta1;as=Flagz; KEP-4828,
// KEP-4827).
type zpage struct {
	kind string
	text func(io.Writer)
	// object makes the v1beta1 object; v1alpha1 is equal.
	object func(metav1.TypeMeta, metav1.ObjectMeta) any
}

const zpagesGroup = "config.k8s.io"

// ServeHTTP implements http.Handler.
func (z zpage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	accept := r.Header.Get("Accept")
	if strings.TrimSpace(accept) == "" {
		accept = "text/plain"
	}
	for wish := range strings.SplitSeq(accept, ",") {
		kind, is, err := mime.ParseMediaType(wish)
		if err != nil {
			continue
		}
		switch kind {
		case "*/*", "text/*", "text/plain":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprintf(w, "\n%s %s\nWarning: This endpoint is not meant to be machine parseable, "+
				"has no formatting compatibility guarantees and is for debugging purposes only.\n", component,
				strings.ToLower(z.kind))
			z.text(w)
			return
		case "application/json", "application/yaml":
			version := is["v"]
			if is["g"] != zpagesGroup || is["as"] != z.kind || version != "v1beta1" && version != "v1alpha1" {
				continue
			}
			if version == "v1alpha1" {
				w.Header().Set("Warning", fmt.Sprintf("299 - %q", "v1alpha1 of this page is deprecated: use v1beta1"))
			}
			z.write(w, kind, version)
			return
		}
	}
	http.Error(w,
		fmt.Sprintf("not acceptable: use text/plain, or application/json (or application/yaml) with ;g=%s;v=v1beta1;as=%s",
			zpagesGroup, z.kind), http.StatusNotAcceptable)
}

func (z zpage) write(w http.ResponseWriter, mediaType, version string) {
	object := z.object(metav1.TypeMeta{Kind: z.kind, APIVersion: zpagesGroup + "/" + version},
		metav1.ObjectMeta{Name: component})
	encode := json.Marshal
	if mediaType == "application/yaml" {
		encode = yaml.Marshal
	}
	text, err := encode(object)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Write(text)
}

// FlagzRoute is /flagz: the flags of the command line, by name.
func FlagzRoute(flags map[string]string) Route {
	return Route{Path: "/flagz", Methods: []string{http.MethodGet}, Subresources: Configz[:1], Handler: zpage{
		kind: "Flagz",
		text: func(w io.Writer) {
			for _, name := range slices.Sorted(maps.Keys(flags)) {
				fmt.Fprintf(w, "%s=%s\n", name, flags[name]) //nolint:errcheck // a client that is gone
			}
		},
		object: func(t metav1.TypeMeta, m metav1.ObjectMeta) any {
			return flagz.Flagz{TypeMeta: t, ObjectMeta: m, Flags: flags}
		},
	}}
}

// StatuszRoute is /statusz: this program's version, start time and paths. shown is its version
// (of Kubernetes, and its own).
func StatuszRoute(shown string, started time.Time, routes []Route) Route {
	page := func() statusz.Statusz {
		s := statusz.Statusz{
			StartTime: metav1.NewTime(started), UptimeSeconds: int64(max(0, time.Since(started).Seconds())),
			GoVersion: runtime.Version(), BinaryVersion: strings.TrimPrefix(shown, "v"), Paths: tops(routes),
		}
		if v, err := version.ParseSemantic(shown); err == nil {
			s.EmulationVersion = fmt.Sprintf("%d.%d", v.Major(), v.Minor())
		}
		return s
	}
	return Route{Path: "/statusz", Methods: []string{http.MethodGet}, Subresources: Statusz, Handler: zpage{
		kind: "Statusz",
		text: func(w io.Writer) {
			s := page()
			up := time.Duration(s.UptimeSeconds) * time.Second
			//nolint:errcheck // a client that is gone
			fmt.Fprintf(w,
				"Started: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
				s.StartTime.UTC().Format(time.RFC1123), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
				s.GoVersion, s.BinaryVersion, s.EmulationVersion, strings.Join(s.Paths, " "))
		},
		object: func(t metav1.TypeMeta, m metav1.ObjectMeta) any {
			s := page()
			s.TypeMeta, s.ObjectMeta = t, m
			return s
		},
	}}
}

// tops are the first elements of the paths of routes, sorted.
func tops(routes []Route) (out []string) {
	for _, r := range append(slices.Clone(routes), Route{Path: "/statusz"}) {
		top, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
		out = append(out, "/"+top)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
