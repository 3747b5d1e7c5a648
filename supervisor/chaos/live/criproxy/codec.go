package criproxy

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// frame is one message as bytes.
type frame struct{ bytes []byte }

// rawCodec takes messages for what they are on the wire. Its name is that of the usual codec, which
// both sides believe to talk to.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("criproxy passes frames on, not a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f.bytes)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("criproxy passes frames on, not a %T", v)
	}
	f.bytes = data.Materialize() // a copy: data is freed when this returns
	return nil
}
