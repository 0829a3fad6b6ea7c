package service

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// prefixBytes begin a message of gRPC: a byte, and the size of the message.
const prefixBytes = 5

// weighed takes room for requests ahead of reading them, and gives back the room of calls. The time
// that a call has begins ahead of the wait for room: Connect would count it from the end of that,
// and the service would work for callers that have left.
func (s *Service) weighed(next http.Handler) http.Handler {
	streams := streamingProcedures()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by := callerOf(r.Context())
		defer by.room.leave()
		if left, limited := timeLeft(r.Header); limited && !streams[r.URL.Path] {
			ctx, cancel := context.WithTimeout(r.Context(), left)
			defer cancel()
			r = r.WithContext(ctx)
		}
		switch {
		case streams[r.URL.Path]:
			body := &framedBody{
				ReadCloser: r.Body, ctx: r.Context(), caller: by, limits: s.limits.Limits,
			}
			defer body.end()
			r.Body = body
		case r.ContentLength >= 0:
			// Anybody announces what he likes: no more than this is read.
			size := min(r.ContentLength, int64(s.limits.RequestBytes))
			if err := by.room.hold(r.Context(), size); err != nil {
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

// timeLeft is how long the caller of a request waits for the answer, if it says so as Connect or
// gRPC have it. What else it says there, Connect refuses.
func timeLeft(header http.Header) (left time.Duration, limited bool) {
	number, unit := header.Get("Connect-Timeout-Ms"), time.Millisecond
	if text := header.Get("Grpc-Timeout"); text != "" {
		number, unit = text[:len(text)-1], map[byte]time.Duration{
			'n': time.Nanosecond, 'u': time.Microsecond, 'm': time.Millisecond, 'S': time.Second,
			'M': time.Minute, 'H': time.Hour,
		}[text[len(text)-1]]
	}
	count, err := strconv.ParseInt(number, 10, 64)
	if err != nil || unit == 0 || count < 0 || count > int64(math.MaxInt64/unit) {
		return 0, false
	}
	return time.Duration(count) * unit, true
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
		return next(ctx, &weighedStream{stream, callerOf(ctx), ctx})
	}
}
