package service

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

const (
	// bytesDefault is four of the largest requests.
	bytesDefault = 256 << 20

	// smallBytes is the size of messages that are not counted: 1,000 of them are 32 MiB.
	smallBytes = 32 << 10

	// roomMax is how long a call waits for room at most.
	roomMax = 30 * time.Second

	// prefixBytes begin a message of gRPC: a byte, and the size of the message.
	prefixBytes = 5
)

// A budget bounds the bytes of all messages that a service holds: a call takes room for its
// request, and for its answer, for which it first gives back that of its request. So nobody waits
// for room who keeps some from others.
type budget struct {
	total, share int64 // of all calls, and of those of a principal

	mutex   sync.Mutex
	held    int64
	by      map[string]int64 // principals, by their names
	waiting []*wanted        // in the order in which they came
}

// A wanted is room for which a call waits.
type wanted struct {
	name  string
	bytes int64
	given chan struct{} // closed when it has it
}

// newBudget returns a budget of which each principal may take half, but never less than the largest
// message; all of it, if all callers are one principal.
func newBudget(total int64, largest int, many bool) *budget {
	share := total
	if many {
		share = min(total, max(total/2, int64(largest))) //nolint:mnd // half
	}
	return &budget{total: total, share: share, by: map[string]int64{}}
}

// take waits for room until ctx ends, or roomMax has passed. More than there is altogether is given
// when nobody else has any.
func (b *budget) take(ctx context.Context, name string, bytes int64) error {
	w := &wanted{name, bytes, make(chan struct{})}
	b.mutex.Lock()
	b.waiting = append(b.waiting, w)
	b.give()
	b.mutex.Unlock()
	timer := time.NewTimer(roomMax)
	defer timer.Stop()
	select {
	case <-w.given:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 { // it was given at this moment
		return nil
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.give() // to those behind it
	refusal := errLimited("or others hold too many bytes of messages")
	refusal.Meta().Set("Retry-After", "1")
	return cmp.Or(ctx.Err(), error(refusal))
}

// give gives room to those that wait, in turn: whoever needs much is not passed over for ever. But
// nobody waits for a principal that has its share.
func (b *budget) give() {
	full := false
	b.waiting = slices.DeleteFunc(b.waiting, func(w *wanted) bool {
		of := b.by[w.name]
		if full || of > 0 && of+w.bytes > b.share {
			return false
		}
		if full = b.held > 0 && b.held+w.bytes > b.total; full {
			return false
		}
		b.held += w.bytes
		b.by[w.name] += w.bytes
		close(w.given)
		return true
	})
}

func (b *budget) giveBack(name string, bytes int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.held -= bytes
	if b.by[name] -= bytes; b.by[name] == 0 {
		delete(b.by, name)
	}
	b.give()
}

// A room is what a call has of the budget.
type room struct {
	budget *budget
	name   string

	mutex sync.Mutex
	bytes int64
	over  bool // the call
}

// hold makes the room of a call that of a message. It waits only if it needs more than it has, and
// has none meanwhile.
func (r *room) hold(ctx context.Context, bytes int64) error {
	if r == nil { // of a request that is not counted
		return nil
	}
	if bytes <= smallBytes {
		bytes = 0
	}
	if r.suffices(bytes) {
		return nil
	}
	if err := r.budget.take(ctx, r.name, bytes); err != nil {
		return err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.over { // a fetch goes on for a moment when its caller has left
		r.budget.giveBack(r.name, bytes)
		return context.Canceled
	}
	r.bytes += bytes
	return nil
}

// suffices gives back what is more than so many bytes; all, if there are fewer.
func (r *room) suffices(bytes int64) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	had, enough := r.bytes, bytes <= r.bytes
	if r.bytes = 0; enough {
		r.bytes = bytes
	}
	if had > r.bytes {
		r.budget.giveBack(r.name, had-r.bytes)
	}
	return enough
}

// leave gives back all, for good.
func (r *room) leave() {
	r.mutex.Lock()
	r.over = true
	r.mutex.Unlock()
	r.suffices(0)
}

// weighed takes room for requests ahead of reading them, and gives back the room of calls.
func (s *Service) weighed(next http.Handler) http.Handler {
	streams := streamingProcedures()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by := callerOf(r.Context())
		defer by.room.leave()
		switch {
		case streams[r.URL.Path]: // their messages are weighed one by one
		case r.ContentLength >= 0:
			if err := by.room.hold(r.Context(), r.ContentLength); err != nil {
				s.refuse(w, r, err)
				return
			}
			if r.ContentLength > smallBytes { // the wait was not the sender's
				_ = by.control.SetReadDeadline(now().Add(s.limits.TransferTime))
			}
		default:
			r.Body = &weighedBody{
				ReadCloser: r.Body, ctx: r.Context(), room: by.room, most: s.limits.RequestBytes,
				framed: strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"),
				again: func() { // the wait was not the sender's
					_ = by.control.SetReadDeadline(now().Add(s.limits.TransferTime))
				},
			}
		}
		next.ServeHTTP(w, r)
	})
}

// A weighedBody is that of a request that does not say how large it is. It takes room for the size
// at the beginning of its message, or for the largest one as soon as it is not small.
type weighedBody struct {
	io.ReadCloser

	ctx    context.Context //nolint:containedctx // of the request
	room   *room
	most   int
	framed bool // as gRPC frames messages
	again  func()

	prefix []byte
	read   int64
	asked  bool
}

func (b *weighedBody) Read(into []byte) (int, error) {
	if !b.asked && b.read >= prefixBytes && b.framed || !b.asked && b.read > smallBytes {
		b.asked = true
		size := int64(b.most)
		if b.framed {
			size = min(size, int64(binary.BigEndian.Uint32(b.prefix[1:])))
		}
		if err := b.room.hold(b.ctx, size); err != nil {
			return 0, err
		}
		if size > smallBytes {
			b.again()
		}
	}
	if !b.asked {
		into = into[:min(len(into), smallBytes)]
	}
	n, err := b.ReadCloser.Read(into)
	b.prefix = append(b.prefix, into[:min(n, prefixBytes-len(b.prefix))]...)
	b.read += int64(n)
	if errors.Is(err, io.EOF) {
		_ = b.room.hold(b.ctx, min(b.room.bytes, b.read)) // less, for which nobody waits
	}
	return n, err
}

// A weigher takes room for answers ahead of writing them.
type weigher struct{}

func (weigher) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, request)
		if err != nil {
			return response, err
		}
		message, ok := response.Any().(proto.Message)
		if !ok {
			return response, nil
		}
		err = callerOf(ctx).room.hold(ctx, int64(proto.Size(message)))
		if err != nil && request.Spec().IdempotencyLevel == connect.IdempotencyNoSideEffects {
			return nil, err
		}
		return response, nil // what was done is told in any case
	}
}

func (weigher) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (weigher) WrapStreamingHandler(
	next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return func(ctx context.Context, stream connect.StreamingHandlerConn) error {
		return next(ctx, &weighedStream{stream, callerOf(ctx).room, ctx})
	}
}

// A weighedStream takes room for each message that it has received, until the next one.
type weighedStream struct {
	connect.StreamingHandlerConn
	room *room
	ctx  context.Context //nolint:containedctx // of the stream
}

func (s *weighedStream) Receive(message any) error {
	if err := s.StreamingHandlerConn.Receive(message); err != nil {
		return err
	}
	of, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	return s.room.hold(s.ctx, int64(proto.Size(of)))
}
