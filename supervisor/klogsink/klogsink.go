// Package klogsink writes the log lines of Kubernetes libraries (klog, logr) to the
// agent's log.
package klogsink

import (
	"fmt"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/rs/zerolog"
	"k8s.io/klog/v2"
)

// Route makes klog write into log, for the whole process. It is called once,
// before anything logs.
func Route(log zerolog.Logger) {
	klog.SetLoggerWithOptions(New(log), klog.ContextualLogger(true))
}

// New makes a logger for those libraries. Their verbosities become levels as
// --v means them: V(0) info, up to V(4) debug, above that trace.
func New(log zerolog.Logger) logr.Logger { return logr.New(sink{log: log}) }

type sink struct {
	log  zerolog.Logger
	name string
}

func level(verbosity int) zerolog.Level {
	switch {
	case verbosity <= 0:
		return zerolog.InfoLevel
	case verbosity <= 4:
		return zerolog.DebugLevel
	default:
		return zerolog.TraceLevel
	}
}

// SetVerbosity says how much the whole process logs (--v): 0 for the least, from 4
// on what is for finding mistakes, from 6 on all.
func SetVerbosity(v int) {
	switch {
	case v >= 6:
		zerolog.SetGlobalLevel(zerolog.TraceLevel)
	case v >= 4:
		zerolog.SetGlobalLevel(zerolog.DebugLevel)
	default:
		zerolog.SetGlobalLevel(zerolog.InfoLevel)
	}
}

// ParseVerbosity is SetVerbosity with a number as text.
func ParseVerbosity(text string) error {
	v, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return fmt.Errorf("invalid log verbosity %q: must be a whole number of at least 0", text)
	}
	SetVerbosity(int(v))
	return nil
}

// Init implements logr.LogSink.
func (s sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s sink) Enabled(verbosity int) bool {
	l := level(verbosity)
	return l >= s.log.GetLevel() && l >= zerolog.GlobalLevel()
}

// Info implements logr.LogSink.
func (s sink) Info(verbosity int, message string, pairs ...any) {
	s.write(s.log.WithLevel(level(verbosity)), message, pairs)
}

// Error implements logr.LogSink.
func (s sink) Error(err error, message string, pairs ...any) {
	line := s.log.Error()
	if err != nil {
		line = line.Str("error", err.Error())
	}
	s.write(line, message, pairs)
}

func (s sink) write(line *zerolog.Event, message string, pairs []any) {
	if s.name != "" {
		line = line.Str("logger", s.name)
	}
	line.Fields(shown(pairs)).Msg(message)
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(pairs ...any) logr.LogSink {
	s.log = s.log.With().Fields(shown(pairs)).Logger()
	return s
}

// WithName implements logr.LogSink.
func (s sink) WithName(name string) logr.LogSink {
	if s.name != "" {
		name = s.name + "." + name
	}
	s.name = name
	return s
}

// shown are keys and values as they are to be shown. A last key without a value
// gets none.
func shown(pairs []any) []any {
	out := make([]any, 0, len(pairs)+1)
	for i := 0; i < len(pairs); i += 2 {
		var value any
		if i+1 < len(pairs) {
			value = pairs[i+1]
		}
		switch v := value.(type) {
		case error:
			value = v.Error()
		case fmt.Stringer: // first, so that a pod is namespace/name, as elsewhere
			value = v.String()
		case logr.Marshaler:
			value = v.MarshalLog()
		}
		out = append(out, fmt.Sprint(pairs[i]), value)
	}
	return out
}
