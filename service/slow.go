package service

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stint-tasks/stint/api/stintv1"
)

// streams returns the paths of the procedures that stream, whose messages may come at any time.
func streams() map[string]bool {
	streams := map[string]bool{}
	for _, file := range []protoreflect.FileDescriptor{
		stintv1.File_stint_v1_task_service_proto, stintv1.File_stint_v1_worker_service_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				if m.IsStreamingClient() || m.IsStreamingServer() {
					streams["/"+string(m.Parent().FullName())+"/"+string(m.Name())] = true
				}
			}
		}
	}
	return streams
}

// timed cuts off callers that take too long to send a request, or to read the answer: each of them
// takes up memory for as long.
func (s *Service) timed(next http.Handler) http.Handler {
	streams := streams()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !streams[r.URL.Path] {
			control := http.NewResponseController(w)
			// Servers without deadlines, such as those of tests, do without.
			_ = control.SetReadDeadline(now().Add(s.limits.TransferTime))
			r.Body = &timedBody{ReadCloser: r.Body, end: func() {
				_ = control.SetReadDeadline(time.Time{}) // the call itself may take longer
			}}
			answer := &timedAnswer{ResponseWriter: w, limit: s.limits.TransferTime}
			defer answer.end()
			w = answer
		}
		next.ServeHTTP(w, r)
	})
}

// A timedBody is that of a request. It calls end when it has been read.
type timedBody struct {
	io.ReadCloser

	once sync.Once
	end  func()
}

func (b *timedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if errors.Is(err, io.EOF) {
		b.once.Do(b.end)
	}
	return n, err
}

// A timedAnswer is cut off when the caller takes too long to read it. It sets no deadline before:
// the connection would keep that for the next request.
type timedAnswer struct {
	http.ResponseWriter

	limit time.Duration
	late  *time.Timer
}

func (a *timedAnswer) Write(data []byte) (int, error) {
	if a.late == nil {
		control := http.NewResponseController(a.ResponseWriter)
		a.late = time.AfterFunc(a.limit, func() { _ = control.SetWriteDeadline(now()) })
	}
	return a.ResponseWriter.Write(data)
}

// Flush is for those who do not ask for it by [http.ResponseController].
func (a *timedAnswer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// Unwrap is for [http.ResponseController].
func (a *timedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *timedAnswer) end() {
	if a.late != nil {
		a.late.Stop()
	}
}

// now is the time of this process, for deadlines of connections.
func now() time.Time { return time.Now() } //nolint:forbidigo // as the comment says
