package service

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/wire"
)

// streamingProcedures returns the paths of the procedures that stream, whose messages may come at
// any time.
func streamingProcedures() map[string]bool {
	streams := map[string]bool{}
	for _, service := range wire.Services() {
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			if m.IsStreamingClient() || m.IsStreamingServer() {
				streams["/"+string(service.FullName())+"/"+string(m.Name())] = true
			}
		}
	}
	return streams
}

// timed cuts off callers that take too long to send a request, or to read the answer: each of them
// takes up memory for as long.
func (s *Service) timed(next http.Handler) http.Handler {
	streams := streamingProcedures()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !streams[r.URL.Path] {
			control := http.NewResponseController(w)
			if r.Body != http.NoBody {
				// Servers without deadlines, such as those of tests, do without.
				_ = control.SetReadDeadline(now().Add(s.limits.TransferTime))
				r.Body = &timedBody{ReadCloser: r.Body, end: func() {
					_ = control.SetReadDeadline(time.Time{}) // the call itself may take longer
				}}
			}
			answer := &timedAnswer{
				ResponseWriter: w, control: control, limit: s.limits.TransferTime,
				// Of HTTP/2, a deadline is the answer's; of HTTP/1.1, the connection's, which would
				// keep it for the next request.
				own: r.ProtoMajor > 1,
			}
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

// A timedAnswer is cut off when the caller takes too long to read it.
type timedAnswer struct {
	http.ResponseWriter

	control *http.ResponseController
	limit   time.Duration
	own     bool
	once    sync.Once

	mutex sync.Mutex
	ended bool // the handler has returned, and the connection may be another request's
	late  *time.Timer
}

func (a *timedAnswer) Write(data []byte) (int, error) {
	a.once.Do(a.begin)
	return a.ResponseWriter.Write(data)
}

func (a *timedAnswer) begin() {
	if a.own {
		_ = a.control.SetWriteDeadline(now().Add(a.limit))
		return
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.late = time.AfterFunc(a.limit, func() {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		if !a.ended {
			_ = a.control.SetWriteDeadline(now())
		}
	})
}

// Flush is for those who do not ask for it by [http.ResponseController].
func (a *timedAnswer) Flush() { _ = a.control.Flush() }

// Unwrap is for [http.ResponseController].
func (a *timedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *timedAnswer) end() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.ended = true
	if a.late != nil {
		a.late.Stop()
	}
}

// now is the time of this process, for deadlines of connections.
func now() time.Time { return time.Now() } //nolint:forbidigo // as the comment says
