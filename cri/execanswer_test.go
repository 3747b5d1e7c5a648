package cri

import (
	"bytes"
	"runtime"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// cut is a message as a connection receives it: in pieces.
func cut(data []byte, size int) (out mem.BufferSlice) {
	for len(data) > size {
		out, data = append(out, mem.SliceBuffer(data[:size])), data[size:]
	}
	return append(out, mem.SliceBuffer(data))
}

// TestHeadCodec: it decodes what the ordinary codec decodes, and refuses what that refuses.
func TestHeadCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var data []byte
		for range rapid.IntRange(0, 3).Draw(t, "messages") { // one after the other they are one
			part := check.Must(proto.Marshal(&runtimeapi.ExecSyncResponse{
				Stdout:   rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "stdout"),
				Stderr:   rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "stderr"),
				ExitCode: rapid.Int32().Draw(t, "code"),
			}))
			data = append(append(data, part...), rapid.SampledFrom([][]byte{
				nil, nil, {4 << 3, 0x80, 1}, {5<<3 | 1, 1, 2, 3, 4, 5, 6, 7, 8}, {6<<3 | 2, 2, 1, 2}, {7<<3 | 5, 1, 2, 3, 4},
			}).Draw(t, "of a later version")...)
		}
		broken := [][]byte{nil, nil, {0x80}, {1<<3 | 2, 90, 1}, {1<<3 | 7}, {0, 0}, {4<<3 | 1, 0}}
		data = append(data, rapid.SampledFrom(broken).Draw(t, "broken")...)
		var got, want runtimeapi.ExecSyncResponse
		err := newHeadCodec(maxExecOutput).Unmarshal(cut(data, rapid.IntRange(1, 9).Draw(t, "pieces")), &got)
		wantErr := proto.Unmarshal(data, &want)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%x: %v, want %v", data, err, wantErr)
		}
		same := bytes.Equal(got.Stdout, want.Stdout) && bytes.Equal(got.Stderr, want.Stderr) && got.ExitCode == want.ExitCode
		if err == nil && !same {
			t.Fatalf("%x: %v, want %v", data, &got, &want)
		}
	})
}

// TestHeadCodecMakesNoCopy: decoding takes no more memory than what is kept.
func TestHeadCodecMakesNoCopy(t *testing.T) {
	const long = 8 << 20
	sent := &runtimeapi.ExecSyncResponse{Stdout: make([]byte, long), Stderr: make([]byte, long), ExitCode: 7}
	received := cut(check.Value(proto.Marshal(sent))(t), 16<<10)
	var answer runtimeapi.ExecSyncResponse
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := newHeadCodec(maxExecOutput).Unmarshal(received, &answer)
	runtime.ReadMemStats(&after)
	check.Fatal(t, err)
	check.AtMost(t, after.TotalAlloc-before.TotalAlloc, 512<<10, "bytes that decoding took")
	if len(answer.Stdout) != maxExecOutput || len(answer.Stderr) != maxExecOutput || answer.ExitCode != 7 {
		t.Errorf("%d and %d bytes, code %d", len(answer.Stdout), len(answer.Stderr), answer.ExitCode)
	}
}
