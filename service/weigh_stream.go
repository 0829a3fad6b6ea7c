package service

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// A framedBody is that of a stream, of which all protocols frame the messages alike. It takes room
// for a message ahead of reading it, by the size at its beginning, and cuts the stream off if a
// message that has some takes too long to arrive.
type framedBody struct {
	io.ReadCloser

	ctx    context.Context //nolint:containedctx // of the stream
	caller caller
	limits Limits

	prefix []byte
	left   int64 // of the message
	begun  bool  // the message

	mutex sync.Mutex
	timer *time.Timer // of a message that has room
	late  bool
	over  bool // the connection may be another request's
}

// Read reads no further than to the end of a message, or of what is ahead of it.
func (b *framedBody) Read(into []byte) (int, error) {
	if b.isLate() {
		return 0, os.ErrDeadlineExceeded
	}
	if b.left == 0 {
		n, err := b.ReadCloser.Read(into[:min(len(into), prefixBytes-len(b.prefix))])
		if b.prefix = append(b.prefix, into[:n]...); len(b.prefix) == prefixBytes {
			b.left, b.begun = int64(binary.BigEndian.Uint32(b.prefix[1:])), false
			b.prefix = b.prefix[:0]
		}
		return n, err
	}
	// Connect passes over one that is too large, and keeps nothing of it.
	if !b.begun && b.left > smallBytes && b.left <= int64(b.limits.RequestBytes) {
		if err := b.caller.room.hold(b.ctx, b.left); err != nil {
			return 0, err
		}
		b.hurry()
	}
	b.begun = true
	n, err := b.ReadCloser.Read(into[:min(int64(len(into)), b.left)])
	if b.left -= int64(n); b.left == 0 {
		b.stop()
	}
	return n, err
}

func (b *framedBody) isLate() bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.late
}

// hurry gives the sender of a message as long as that of a request has. Others may set deadlines of
// their own, so it also notes that this one has passed.
func (b *framedBody) hurry() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.timer = time.AfterFunc(b.limits.TransferTime, func() {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		if b.timer != nil && !b.over {
			b.late = true
			_ = b.caller.control.SetReadDeadline(now())
		}
	})
}

func (b *framedBody) stop() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

func (b *framedBody) end() {
	b.stop()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.over = true
}

// A weighedStream gives back the room of a message when the next one is asked for, and takes room
// for those that it sends.
type weighedStream struct {
	connect.StreamingHandlerConn
	caller caller
	ctx    context.Context //nolint:containedctx // of the stream
}

func (s *weighedStream) Receive(message any) error {
	if s.caller.room != nil {
		s.caller.room.suffices(0)
	}
	return s.StreamingHandlerConn.Receive(message)
}

// Send takes room of its own, since a message may be received meanwhile. Who does not read what has
// room is cut off, as with an answer.
func (s *weighedStream) Send(message any) error {
	of, ok := message.(proto.Message)
	if !ok || s.caller.room == nil || proto.Size(of) <= smallBytes {
		return s.StreamingHandlerConn.Send(message)
	}
	sent := &room{budget: s.caller.room.budget, name: s.caller.room.name}
	defer sent.leave()
	if err := sent.hold(s.ctx, int64(proto.Size(of))); err != nil {
		return err
	}
	limits := s.caller.limits
	// Servers without deadlines, such as those of tests, do without.
	_ = s.caller.control.SetWriteDeadline(now().Add(limits.TransferTime))
	defer func() { _ = s.caller.control.SetWriteDeadline(time.Time{}) }()
	return s.StreamingHandlerConn.Send(message)
}
