package serve

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestHeadersOfStrangers: a header takes a hundred times more memory than bytes on the wire, as HPACK refers to what was
// sent before, and a client need not read its answers. Strangers who do that take little memory all the same.
func TestHeadersOfStrangers(t *testing.T) {
	const connections, most = 100, 24 << 20
	for name, c := range map[string]struct {
		streams, fields int
		field           hpack.HeaderField
	}{
		"cookies are one string":  {20, 264, hpack.HeaderField{Name: "cookie", Value: strings.Repeat("x", 3900)}},
		"thousands of empty ones": {1, 14_000, hpack.HeaderField{Name: "accept-ranges"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := besiegeTLS(t)
			asked := unread(c.streams, c.fields, c.field)
			before := live()
			var all sync.WaitGroup
			for range connections {
				conn := check.Value(tls.DialWithDialer(&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.1.1")}}, "tcp",
					b.Address(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}))(t)
				t.Cleanup(func() { conn.Close() })
				check.Value(conn.Write(asked))(t)
				all.Go(func() { refusals(conn, c.streams) })
			}
			all.Wait()
			check.AtMost(t, int64(live())-int64(before), int64(most), "bytes of memory of strangers that were refused")
		})
	}
}

// unread is what a client sends that reads no answer: requests with so many fields.
func unread(streams, fields int, field hpack.HeaderField) []byte {
	var wire, block bytes.Buffer
	wire.WriteString(http2.ClientPreface)
	f, e := http2.NewFramer(&wire, nil), hpack.NewEncoder(&block)
	check.OK(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	for i := range streams {
		block.Reset()
		for _, h := range []hpack.HeaderField{
			{Name: ":method", Value: http.MethodGet}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "n"},
			{Name: ":path", Value: "/pods"},
		} {
			check.OK(e.WriteField(h))
		}
		for range fields {
			check.OK(e.WriteField(field))
		}
		check.OK(f.WriteHeaders(http2.HeadersFrameParam{
			StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
		}))
	}
	return wire.Bytes()
}

// refusals waits for the headers of so many answers, or the end of the connection, which the first refusal announces.
func refusals(conn net.Conn, n int) {
	f := http2.NewFramer(conn, conn)
	for n > 0 {
		frame, err := f.ReadFrame()
		if err != nil || frame.Header().Type == http2.FrameGoAway {
			return
		}
		if frame.Header().Type == http2.FrameHeaders {
			n--
		}
	}
}

// live is the memory on the heap, without garbage.
func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestShareOfANamespace: streams about the pods of one namespace leave room for those of others, though all come
// through one apiserver.
func TestShareOfANamespace(t *testing.T) {
	s := slots{most: longSlots}
	take := func(namespace string) (n int) {
		for {
			if _, ok := s.take("apiserver", namespace); !ok {
				return n
			}
			n++
		}
	}
	check.AtMost(t, take("greedy"), longSlots/namespaceShare, "streams of one namespace")
	for i := range 3 {
		give, ok := s.take("apiserver", "plain")
		check.Equal(t, ok, true, "stream %d of another namespace", i)
		t.Cleanup(give)
	}
	_, ok := s.take("apiserver", "greedy")
	check.Equal(t, ok, false, "one more of the first")
}

// TestSlotsAreGivenBack: nothing is kept of users and namespaces without requests.
func TestSlotsAreGivenBack(t *testing.T) {
	s := slots{most: 2}
	for range 3 {
		give, ok := s.take("u", "ns")
		check.Equal(t, ok, true, "a slot")
		give()
	}
	check.Equal(t, s.all+len(s.of)+len(s.about), 0, "what is kept")
	_, ok := s.take("u", "")
	check.Equal(t, ok, true, "a slot for no namespace")
	check.Equal(t, s.all, 1, "slots that are taken")
}
