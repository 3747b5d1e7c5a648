package kube

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/troupe-dev/troupe/actors/rescue"
)

// contained is a serializer whose decoders fail where they would panic. client-go decodes the events of a watch on a
// goroutine of its own, where a panic ends the process: also that of the next agent, which is sent the same object. As
// with any object that can't be decoded, the watch ends and begins again. The agent hears of no other object of that
// watch meanwhile, as if the apiserver were away. To leave the one out would be wrong: a pod that is not in a list
// counts as gone.
type contained struct {
	runtime.NegotiatedSerializer
	// ctx says who is told of a panic.
	ctx context.Context
}

// newContained makes one that says in the log what panicked, at most once a minute.
func newContained(s runtime.NegotiatedSerializer, log zerolog.Logger) contained {
	seldom := log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute})
	return contained{s, rescue.With(context.Background(), func(reason string, stack []byte) {
		seldom.Error().Str("panic", reason).Str("stack", string(stack)).
			Msg("an object of the apiserver can't be decoded; watching all of its kind again")
	})}
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (c contained) SupportedMediaTypes() []runtime.SerializerInfo {
	all := slices.Clone(c.NegotiatedSerializer.SupportedMediaTypes())
	for i := range all {
		if s := all[i].StreamSerializer; s != nil {
			own := *s
			own.Serializer = struct {
				runtime.Encoder
				decoder
			}{s.Serializer, decoder{s.Serializer, c.ctx}}
			all[i].StreamSerializer = &own
		}
	}
	return all
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (c contained) DecoderToVersion(d runtime.Decoder, v runtime.GroupVersioner) runtime.Decoder {
	return decoder{c.NegotiatedSerializer.DecoderToVersion(d, v), c.ctx}
}

type decoder struct {
	runtime.Decoder
	ctx context.Context
}

// Decode implements runtime.Decoder.
func (d decoder) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (o runtime.Object, kind *schema.GroupVersionKind, err error) {
	defer rescue.Call(d.ctx, func(reason string) { o, kind, err = nil, nil, errors.New(reason) })
	return d.Decoder.Decode(data, defaults, into)
}
