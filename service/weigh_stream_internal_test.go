package service

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
)

// newWeighing returns a service with room for eight small messages.
func newWeighing() *Service {
	return &Service{
		limits: newLimits(Limits{}, 1), budget: newBudget(smallBytes*8, smallBytes, false),
		refusals: connect.NewErrorWriter(),
	}
}

// stream lets a handler read the body of a stream.
func (s *Service) stream(t *testing.T, body io.Reader, read http.HandlerFunc) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		stintv1connect.TaskServiceInsertTasksFromProcedure, body)
	r.ContentLength = -1
	r.Header.Set("Content-Type", "application/grpc+proto")
	s.admitted(s.weighed(read)).ServeHTTP(httptest.NewRecorder(), r)
}

// A message of a stream is read only when there is room for it, and not for longer than a request.
// Proves G137.
func TestStream_TakesRoomAheadOfReadingAMessage(t *testing.T) {
	t.Parallel()
	const size = smallBytes * 2
	prefix := binary.BigEndian.AppendUint32([]byte{0}, size)
	t.Run("room", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newWeighing()
			other := &room{budget: s.budget}
			if err := other.hold(t.Context(), smallBytes*8); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Second, other.leave)
			body, began := bytes.NewReader(append(prefix, make([]byte, size)...)), time.Now()
			s.stream(t, body, func(_ http.ResponseWriter, r *http.Request) {
				read, err := io.ReadAll(r.Body)
				if took := time.Since(began); err != nil || took != time.Second {
					t.Errorf("%d bytes are read after %v, %v", len(read), took, err)
				}
				if s.budget.held != size {
					t.Errorf("%d bytes are held", s.budget.held)
				}
			})
			if s.budget.held != 0 {
				t.Errorf("%d bytes are held behind the stream", s.budget.held)
			}
		})
	})
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newWeighing()
			began := time.Now()
			slow := io.LimitReader(trickle{}, size)
			s.stream(t, io.MultiReader(bytes.NewReader(prefix), slow),
				func(_ http.ResponseWriter, r *http.Request) {
					_, err := io.ReadAll(io.LimitReader(r.Body, 300))
					took := time.Since(began)
					most := transferTimeDefault + time.Second
					if !errors.Is(err, os.ErrDeadlineExceeded) || took > most {
						t.Errorf("after %v: %v", took, err)
					}
				})
		})
	})
}

// A trickle is a byte each second.
type trickle struct{}

func (trickle) Read(into []byte) (int, error) {
	<-time.After(time.Second)
	return copy(into, "x"), nil
}

// A sending is a stream that notes how many bytes are held while a message is sent.
type sending struct {
	connect.StreamingHandlerConn
	budget *budget
	held   int64
}

func (s *sending) Send(any) error {
	s.held = s.budget.held
	return nil
}

// What a service sends by a stream counts while it is sent.
// Proves G137.
func TestStream_TakesRoomForWhatItSends(t *testing.T) {
	t.Parallel()
	s := newWeighing()
	by := caller{
		place: &place{limits: &s.limits}, room: &room{budget: s.budget},
		control: http.NewResponseController(httptest.NewRecorder()),
	}
	conn := &sending{budget: s.budget}
	lost := &stintv1.AttendResponse{Lost: []string{strings.Repeat("x", smallBytes*2)}}
	err := weigher{}.WrapStreamingHandler(
		func(_ context.Context, stream connect.StreamingHandlerConn) error {
			return stream.Send(lost)
		})(context.WithValue(t.Context(), callerKey{}, by), conn)
	if err != nil || conn.held <= smallBytes*2 || s.budget.held != 0 {
		t.Errorf("Send = %v, with %d bytes, behind it %d", err, conn.held, s.budget.held)
	}
}
