package nodestats_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/supervisor/serve/nodestats"
	"github.com/troupe-dev/troupe/tests/check"
)

// BenchmarkScrape writes what was read of 100 pods of one container.
func BenchmarkScrape(b *testing.B) {
	many := make([]usage.Pod, 100)
	for i := range many {
		many[i] = pods[0]
		many[i].Name = fmt.Sprint("web-", i)
		many[i].Containers = pods[0].Containers[:1]
	}
	routes := check.Value(nodestats.Routes(nodestats.Config{
		Cores:  func() int { return 2 },
		Source: func(context.Context, nodestats.Depth) (usage.Node, []usage.Pod, error) { return node, many, nil },
	}))(b)
	for _, r := range routes {
		b.Run(r.Path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := discard{header: http.Header{}}
				r.Handler.ServeHTTP(w, httptest.NewRequest("GET", r.Path, nil))
			}
		})
	}
}

// discard is where nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(b []byte) (int, error) { return io.Discard.Write(b) }
func (discard) WriteHeader(int)             {}
