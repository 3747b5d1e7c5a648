package klogsink

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestLines(t *testing.T) {
	for _, c := range []struct {
		name  string
		level zerolog.Level
		log   func(logr.Logger)
		want  string
	}{
		{"info", zerolog.InfoLevel, func(l logr.Logger) { l.Info("hello", "n", 1) }, `{"level":"info","n":1,"message":"hello"}`},
		{"debug is not shown", zerolog.InfoLevel, func(l logr.Logger) { l.V(1).Info("hello") }, ``},
		{"debug", zerolog.DebugLevel, func(l logr.Logger) { l.V(4).Info("hello") }, `{"level":"debug","message":"hello"}`},
		{"trace is not shown", zerolog.DebugLevel, func(l logr.Logger) { l.V(5).Info("hello") }, ``},
		{"trace", zerolog.TraceLevel, func(l logr.Logger) { l.V(9).Info("hello") }, `{"level":"trace","message":"hello"}`},
		{"error", zerolog.InfoLevel, func(l logr.Logger) { l.V(4).Error(errors.New("bad"), "failed") }, `{"level":"error","error":"bad","message":"failed"}`},
		{"no error", zerolog.InfoLevel, func(l logr.Logger) { l.Error(nil, "failed") }, `{"level":"error","message":"failed"}`},
		{"values and names", zerolog.InfoLevel, func(l logr.Logger) {
			l.WithName("a").WithName("b").WithValues("x", types.NamespacedName{Namespace: "n", Name: "m"}).Info("hello", "err", errors.New("bad"), "took", time.Second, "odd")
		}, `{"level":"info","x":"n/m","logger":"a.b","err":"bad","took":"1s","odd":null,"message":"hello"}`},
		{"reference", zerolog.InfoLevel, func(l logr.Logger) { l.Info("hello", "pod", klog.KRef("n", "m")) }, `{"level":"info","pod":"n/m","message":"hello"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text strings.Builder
			c.log(New(zerolog.New(&text).Level(c.level)))
			check.Equal(t, strings.TrimSpace(text.String()), c.want, "got")
		})
	}
}

// TestRoute: what the old functions and contextual loggers write arrives.
func TestRoute(t *testing.T) {
	var text strings.Builder
	Route(zerolog.New(&text).Level(zerolog.InfoLevel))
	t.Cleanup(klog.ClearLogger)
	klog.Infof("one %d", 1)
	klog.V(4).Info("not shown")
	klog.ErrorS(errors.New("bad"), "two")
	klog.Background().Info("three")
	klog.Background().V(4).Info("not shown")
	klog.FromContext(t.Context()).Error(nil, "four")
	klog.Flush()
	want := `{"level":"info","message":"one 1"}
{"level":"error","error":"bad","message":"two"}
{"level":"info","message":"three"}
{"level":"error","message":"four"}
`
	check.Equal(t, text.String(), want, "got")
}
