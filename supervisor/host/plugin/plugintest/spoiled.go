package plugintest

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Spoiled has a server change each encoded message that it sends; nil: none.
func Spoiled(change func([]byte) []byte) grpc.ServerOption {
	if change == nil {
		return grpc.EmptyServerOption{}
	}
	return grpc.ForceServerCodecV2(spoiled{encoding.GetCodecV2(proto.Name), change})
}

type spoiled struct {
	encoding.CodecV2
	change func([]byte) []byte
}

// Marshal implements encoding.CodecV2.
func (s spoiled) Marshal(v any) (mem.BufferSlice, error) {
	data, err := s.CodecV2.Marshal(v)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(s.change(data.Materialize()))}, nil
}
