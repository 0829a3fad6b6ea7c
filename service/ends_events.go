package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
)

// EndEvents returns a handler that streams what ends as server-sent events, for browsers, curl and
// libraries for these. The parameters of a GET request are actions, which may be there many times,
// and from, which is a cursor or "now"; both may be missing, as for [stint.Store.Ends]. The header
// Last-Event-ID, which a client sends when it connects anew, stands above from.
//
// The data of an event is a task, in the JSON of GetEnds. Behind the tasks of a page comes the
// cursor as the ID: so a client that connects anew gets some of them once more, and misses none.
// The stream ends when the service drains, or with an event named "error" that has an error of
// Connect as its data; without any event before it, the error is the answer. Browsers connect anew
// after a stream, but not after such an answer; so what may pass, such as an outage of the
// database, comes as an event to a client that sends Last-Event-ID.
//
// Each page is a call of GetEnds, with the credentials of the request and all that is asked of such
// a call: see [Options.Authenticate] and [Limits].
func (s *Service) EndEvents() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "the method must be GET", http.StatusMethodNotAllowed)
			return
		}
		stream := &endStream{service: s, w: w, control: http.NewResponseController(w)}
		stream.ask.Wait = "0s" // the client is to know soon that it is let in
		if err := stream.ask.read(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// Of HTTP/1.1, the deadline is the connection's, which another request may use.
		defer func() { _ = stream.control.SetWriteDeadline(time.Time{}) }()
		for more := true; more; {
			more = stream.next(r) && s.draining.Err() == nil
		}
	})
}

// An endsAsked is the JSON of a request for ends.
type endsAsked struct {
	Actions []string `json:"actions,omitempty"`
	From    string   `json:"from,omitempty"`
	Wait    string   `json:"wait,omitempty"`
}

func (a *endsAsked) read(r *http.Request) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	for name, given := range values {
		switch {
		case name == "actions":
			a.Actions = given
		case name == "from" && len(given) == 1:
			a.From = given[0]
		default:
			return fmt.Errorf("the parameters are actions, and from once, and not %.40q", name)
		}
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		a.From = last
	}
	return nil
}

// An endStream is an answer with events.
type endStream struct {
	service *Service
	w       http.ResponseWriter
	control *http.ResponseController
	ask     endsAsked
	begun   bool
}

// next asks for a page, and writes it. It reports whether there may be more.
func (e *endStream) next(r *http.Request) (more bool) {
	answer, name := e.call(r)
	if r.Context().Err() != nil {
		return false
	}
	place := &room{budget: e.service.budget, name: name}
	defer place.leave()
	if place.hold(r.Context(), int64(answer.body.Len())) != nil {
		e.begin() // else the client would not connect anew
		return false
	}
	// Servers without deadlines, such as those of tests, do without.
	_ = e.control.SetWriteDeadline(now().Add(e.service.limits.TransferTime))
	var page struct {
		Tasks []json.RawMessage `json:"tasks"`
		Next  string            `json:"next"`
	}
	if answer.code != http.StatusOK || json.Unmarshal(answer.body.Bytes(), &page) != nil {
		e.refuse(answer, r.Header.Get("Last-Event-ID") != "")
		return false
	}
	e.begin()
	for _, task := range page.Tasks {
		e.event("data", task)
	}
	e.ask.Wait = ""
	if e.ask.From = page.Next; page.Next != "" {
		e.event("id", []byte(page.Next))
	} else {
		e.event("", nil) // so that proxies keep the connection
	}
	return e.control.Flush() == nil
}

// begin says that the answer is a stream.
func (e *endStream) begin() {
	if e.begun {
		return
	}
	e.begun = true
	e.w.Header().Set("Content-Type", "text/event-stream")
	e.w.Header().Set("Cache-Control", "no-store")
	e.w.Header().Set("X-Accel-Buffering", "no") // or nginx would keep events back
}

// event writes a field of an event, or a comment, on a line of its own. Whether that arrives, a
// flush tells.
func (e *endStream) event(field string, value []byte) {
	fmt.Fprintf(e.w, "%s: %s\n\n", field, bytes.ReplaceAll(value, []byte("\n"), []byte(" ")))
}

// refuse passes on why there is no page.
func (e *endStream) refuse(answer *heldAnswer, isAnew bool) {
	switch answer.code {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		if isAnew {
			e.begin()
		}
	}
	if e.service.draining.Err() != nil { // the client connects anew
		e.begin()
		return
	}
	if e.begun {
		fmt.Fprint(e.w, "event: error\n")
		e.event("data", answer.body.Bytes())
		return
	}
	maps.Copy(e.w.Header(), answer.header)
	e.w.WriteHeader(answer.code)
	_, _ = e.w.Write(answer.body.Bytes()) // nobody is there to be told
}

// call calls GetEnds as whoever sent the request, and returns the name of the principal, too.
func (e *endStream) call(r *http.Request) (answer *heldAnswer, name string) {
	body, _ := json.Marshal(e.ask) // texts
	of := &call{}
	inner := r.Clone(context.WithValue(r.Context(), callKey{}, of))
	inner.Method = http.MethodPost
	inner.URL = &url.URL{Path: stintv1connect.TaskServiceGetEndsProcedure}
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	inner.Header.Set("Content-Type", "application/json")
	inner.Header.Del("Accept-Encoding")
	answer = &heldAnswer{header: http.Header{}, code: http.StatusOK}
	e.service.ServeHTTP(answer, inner)
	return answer, of.principal
}

// A heldAnswer is kept instead of being sent.
type heldAnswer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header is that of a [http.ResponseWriter].
func (a *heldAnswer) Header() http.Header { return a.header }

// WriteHeader is that of a [http.ResponseWriter].
func (a *heldAnswer) WriteHeader(code int) { a.code = code }

// Write is that of a [http.ResponseWriter].
func (a *heldAnswer) Write(part []byte) (int, error) { return a.body.Write(part) }
