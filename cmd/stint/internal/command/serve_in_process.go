package command

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/stint-tasks/stint/service"
)

// callKey is under which a context has the request for a page that calls are made for.
type callKey struct{}

// inProcess sends requests to the service of this process, with the credentials of whoever has
// asked for a page.
type inProcess struct{ of *service.Service }

// RoundTrip serves a request.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close() //nolint:errcheck // it was read
	}
	r = r.Clone(r.Context())
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0 // as a client of the service speaks
	if by, ok := r.Context().Value(callKey{}).(*http.Request); ok {
		r.Header["Authorization"], r.TLS, r.RemoteAddr = by.Header["Authorization"], by.TLS,
			by.RemoteAddr
	}
	answer := &answerWriter{header: http.Header{}, code: http.StatusOK}
	p.of.ServeHTTP(answer, r)
	return &http.Response{
		StatusCode: answer.code, Status: http.StatusText(answer.code), Header: answer.header,
		Trailer: answer.trailer(), Proto: "HTTP/2.0", ProtoMajor: 2, Request: r,
		ContentLength: int64(answer.body.Len()), Body: closing{&answer.body},
	}, nil
}

// An answerWriter keeps an answer. The answers that pages ask for end soon, and have bounds.
type answerWriter struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header returns the headers.
func (a *answerWriter) Header() http.Header { return a.header }

// WriteHeader notes the code.
func (a *answerWriter) WriteHeader(code int) { a.code = code }

// Write adds to the body.
func (a *answerWriter) Write(part []byte) (int, error) { return a.body.Write(part) }

// trailer returns the headers that come behind the body, and takes them from the others.
func (a *answerWriter) trailer() http.Header {
	trailer := http.Header{}
	for name, values := range a.header {
		if of, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			trailer[http.CanonicalHeaderKey(of)] = values
			delete(a.header, name)
		}
	}
	return trailer
}

type closing struct{ *bytes.Buffer }

// Close does nothing.
func (closing) Close() error { return nil }
