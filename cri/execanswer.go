package cri

import (
	"encoding/binary"
	"fmt"
	"io"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// headCodec decodes an ExecSyncResponse where it was received, and keeps no more than the head of each output, of most
// bytes. The ordinary one makes two copies of all first.
type headCodec struct {
	encoding.CodecV2
	most int
}

func newHeadCodec(most int) headCodec { return headCodec{encoding.GetCodecV2(proto.Name), most} }

// Marshal implements encoding.CodecV2. A pool would keep the buffer of a long command for the next one.
func (headCodec) Marshal(v any) (mem.BufferSlice, error) {
	data, err := protobuf.Marshal(v.(protobuf.Message))
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

// Unmarshal implements encoding.CodecV2.
func (c headCodec) Unmarshal(data mem.BufferSlice, v any) error {
	answer, is := v.(*runtimeapi.ExecSyncResponse)
	if !is {
		return c.CodecV2.Unmarshal(data, v)
	}
	r := data.Reader()
	defer r.Close() //nolint:errcheck // it has none
	for r.Remaining() > 0 {
		if err := c.readField(r, answer); err != nil {
			return fmt.Errorf("decode the answer of a command: %w", err)
		}
	}
	return nil
}

// readField reads a field of the wire format (protobuf.dev/programming-guides/encoding). One that is not known is left
// out.
func (c headCodec) readField(r *mem.Reader, into *runtimeapi.ExecSyncResponse) error {
	tag, err := binary.ReadUvarint(r)
	if err != nil {
		return err
	}
	number, kind := protowire.DecodeTag(tag)
	if !number.IsValid() {
		return fmt.Errorf("there is no field %d", number)
	}
	length := uint64(0)
	switch kind {
	case protowire.VarintType, protowire.BytesType:
		if length, err = binary.ReadUvarint(r); err != nil {
			return err
		}
	case protowire.Fixed64Type:
		length = 8
	case protowire.Fixed32Type:
		length = 4
	default:
		return fmt.Errorf("field %d has the unknown type %d", number, kind)
	}
	switch {
	case kind == protowire.VarintType:
		if number == 3 {
			into.ExitCode = int32(length)
		}
		return nil
	case length > uint64(r.Remaining()):
		return io.ErrUnexpectedEOF
	case kind == protowire.BytesType && number == 1:
		into.Stdout, err = c.readHead(r, int(length))
	case kind == protowire.BytesType && number == 2:
		into.Stderr, err = c.readHead(r, int(length))
	default:
		_, err = r.Discard(int(length))
	}
	return err
}

// readHead reads so many bytes, and gives those that are kept.
func (c headCodec) readHead(r *mem.Reader, length int) ([]byte, error) {
	head := make([]byte, min(length, c.most))
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	_, err := r.Discard(length - len(head))
	return head, err
}
