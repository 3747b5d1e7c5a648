package kube

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// panicky is a serializer that panics over an object, or over the event around it.
type panicky struct {
	runtime.NegotiatedSerializer
	// event: over the event.
	event bool
}

func (p panicky) DecoderToVersion(d runtime.Decoder, v runtime.GroupVersioner) runtime.Decoder {
	d = p.NegotiatedSerializer.DecoderToVersion(d, v)
	if p.event {
		return d
	}
	return panickyDecoder{Decoder: d}
}

func (p panicky) SupportedMediaTypes() []runtime.SerializerInfo {
	all := slices.Clone(p.NegotiatedSerializer.SupportedMediaTypes())
	for i := range all {
		if s := all[i].StreamSerializer; s != nil && p.event {
			own := *s
			own.Serializer = panickyDecoder{s.Serializer, s.Serializer}
			all[i].StreamSerializer = &own
		}
	}
	return all
}

type panickyDecoder struct {
	runtime.Encoder
	runtime.Decoder
}

func (p panickyDecoder) Decode(
	data []byte, kind *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	if bytes.Contains(data, []byte("poison")) {
		panic("no such thing")
	}
	return p.Decoder.Decode(data, kind, into)
}

// logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestWatchOfWhatPanics: an object that makes the decoder panic ends its watch, which begins again, and not the agent.
func TestWatchOfWhatPanics(t *testing.T) {
	for name, event := range map[string]bool{"the object": false, "the event": true} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			rest := server(t, func(w http.ResponseWriter, r *http.Request) {
				o, bad := aConfigMap("5"), asked.Add(1) <= 3
				if bad {
					o.Name = "poison"
				}
				if r.URL.Query().Get("watch") != "true" {
					give(w, http.StatusOK, list("5", *o))
					return
				}
				send := stream(w)
				if send("ADDED", o); !bad {
					send("BOOKMARK", bookmark("6"))
					send("MODIFIED", aConfigMap("7"))
				}
				<-r.Context().Done()
			})
			var log logged
			config := Config{REST: rest, Version: "1.2.3", Log: zerolog.New(&log)}
			c := check.Value(newWith(config, func(s runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
				return panicky{s, event}
			}))(t)
			t.Cleanup(c.Close)
			for changes := follow(t, c); ; {
				if set, is := check.Receive(t, changes).(port.APISet); is && set.Object.GetResourceVersion() == "7" {
					break // the watch goes on, when there is no such object any more
				}
			}
			check.Equal(t, strings.Count(log.String(), `"panic":"no such thing"`), 1, "lines of the log that say why: %s", &log)
		})
	}
}

// TestGetOfWhatPanics: the call that asked for such an object fails, and counts as a crash of who asked.
func TestGetOfWhatPanics(t *testing.T) {
	c := check.Value(newWith(Config{Version: "1.2.3", REST: server(t, func(w http.ResponseWriter, _ *http.Request) {
		o := aConfigMap("5")
		o.Name = "poison"
		give(w, http.StatusOK, o)
	})}, func(s runtime.NegotiatedSerializer) runtime.NegotiatedSerializer { return panicky{s, false} }))(t)
	t.Cleanup(c.Close)
	_, err := getOf(t, c, web)
	check.Equal(t, port.KindOf(err), port.Panic, "how it fails: %v", err)
}
