package deadfs

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// The part of the protocol (linux/fuse.h, version 7.31) that an empty file system needs.
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opStatfs      = 17
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opReleasedir  = 29
	opInterrupt   = 36
	opBatchForget = 42

	headerSize = 40 // of a request
	answerSize = 16 // of an answer's header
	attrSize   = 88
)

// request is one as the kernel wrote it.
type request []byte

func (q request) op() uint32   { return binary.NativeEndian.Uint32(q[4:]) }
func (q request) node() uint64 { return binary.NativeEndian.Uint64(q[16:]) }

// answer is nil if there is to be none.
func (q request) answer() []byte {
	switch q.op() {
	case opForget, opBatchForget, opInterrupt:
		return nil
	case opInit:
		body := make([]byte, 64)
		binary.NativeEndian.PutUint32(body[0:], 7)
		binary.NativeEndian.PutUint32(body[4:], 31)
		binary.NativeEndian.PutUint32(body[20:], 4096) // max_write
		return q.reply(0, body)
	case opLookup:
		if string(q[headerSize:]) != Share+"\x00" {
			return q.reply(unix.ENOENT, nil)
		}
		// Each directory has one of its own, of the number after its. Nothing may be remembered of it: who
		// comes after the server's death is to ask.
		body := make([]byte, 40+attrSize)
		binary.NativeEndian.PutUint64(body[0:], q.node()+1)
		directory(body[40:], q.node()+1)
		return q.reply(0, body)
	case opGetattr:
		body := make([]byte, 16+attrSize)
		directory(body[16:], q.node())
		return q.reply(0, body)
	case opStatfs:
		return q.reply(0, make([]byte, 80))
	case opOpendir:
		return q.reply(0, make([]byte, 16))
	case opReaddir, opReleasedir:
		return q.reply(0, nil)
	default:
		return q.reply(unix.ENOSYS, nil)
	}
}

func (q request) reply(code unix.Errno, body []byte) []byte {
	out := make([]byte, answerSize, answerSize+len(body))
	binary.NativeEndian.PutUint32(out[0:], uint32(answerSize+len(body)))
	binary.NativeEndian.PutUint32(out[4:], uint32(-int32(code)))
	copy(out[8:16], q[8:16]) // unique
	return append(out, body...)
}

// directory fills a struct fuse_attr.
func directory(attr []byte, node uint64) {
	binary.NativeEndian.PutUint64(attr[0:], node)
	binary.NativeEndian.PutUint32(attr[60:], unix.S_IFDIR|0o755)
	binary.NativeEndian.PutUint32(attr[64:], 2) // links
}
