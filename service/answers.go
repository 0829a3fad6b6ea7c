package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
)

// What anybody may send to [Service.Answers]: requests of at most so many bytes, and so many at a
// time.
const (
	answerBodyMax = 1 << 20
	answersMax    = 8
)

// Answers returns a handler for those who answer external tasks that have an answer key, and who
// need no other credential: people with a link, and systems that call back. Mount it where they
// reach it; stint serve has it at /answer.
//
// A request is a POST with a form, as a page in a browser sends it, or with a JSON object. Both
// have id, key, code ("completed", "aborted" or "skipped"), status (a text for people) and result.
// All may be in the query of the URL instead. A request with other fields, or with one of them
// twice, is refused with 400. The answer is a JSON object: empty with status 200 if
// this answer took effect, and otherwise with an error. 404 says that the key does not fit, or that
// there is no such task; 409 that the task was answered before, or aborted, or that its deadline
// has passed; 425 that it waits for other tasks, and can be answered later; 503 to try again. Each
// task is answered once; a request that is repeated because its answer was lost gets 409.
//
// The actor of the task is then "answer".
func (s *Service) Answers() http.Handler {
	underWay := make(chan struct{}, answersMax)
	return posted(s.timed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := readAnswer(w, r)
		select {
		case underWay <- struct{}{}:
			defer func() { <-underWay }()
		case <-r.Context().Done():
			return
		}
		if err == nil && answer.Key == "" {
			// Tasks without a key are for callers with a credential.
			err = stint.ErrInvalidAnswerKey
		}
		if err == nil {
			var verdicts []error
			verdicts, err = s.store.AnswerTasks(r.Context(), "answer", []stint.Answer{answer})
			if err == nil {
				err = verdicts[0]
			}
		}
		s.writeAnswered(w, err)
	})))
}

// An answerJSON is the body of a request for an answer.
type answerJSON struct {
	ID     stint.TaskID     `json:"id"`
	Key    stint.AnswerKey  `json:"key"`
	Code   stint.StatusCode `json:"code"`
	Status string           `json:"status"`
	Result *string          `json:"result"`
}

// A requestError is why a request cannot be read.
type requestError struct{ text string }

func (e *requestError) Error() string { return e.text }

func readAnswer(w http.ResponseWriter, r *http.Request) (stint.Answer, error) {
	r.Body = http.MaxBytesReader(w, r.Body, answerBodyMax)
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var body answerJSON
	switch kind {
	case "application/json":
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&body); err != nil {
			return stint.Answer{}, unreadable(err)
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return stint.Answer{}, &requestError{"expected one JSON object"}
		}
	case "", "application/x-www-form-urlencoded":
		if err := r.ParseForm(); err != nil {
			return stint.Answer{}, unreadable(err)
		}
	default:
		return stint.Answer{}, &requestError{"the body must be a form or a JSON object"}
	}
	if err := body.fill(r); err != nil {
		return stint.Answer{}, err
	}
	answer := stint.Answer{ID: body.ID, Key: body.Key, Code: body.Code, Status: body.Status}
	if body.Result != nil {
		answer.Result = []byte(*body.Result)
	}
	return answer, nil
}

// fill takes what a form or the query has, if that is nothing else than these fields, each once.
func (a *answerJSON) fill(r *http.Request) error {
	values := r.Form
	if values == nil {
		values = r.URL.Query()
	}
	fields := map[string]*string{
		"id": (*string)(&a.ID), "key": (*string)(&a.Key), "code": (*string)(&a.Code),
		"status": &a.Status,
	}
	for name, given := range values {
		switch into := fields[name]; {
		case into == nil && name != "result":
			return &requestError{fmt.Sprintf("there is no field %.40q", name)}
		case len(given) > 1:
			return &requestError{fmt.Sprintf("the field %q is there twice", name)}
		case into == nil && a.Result == nil:
			a.Result = &given[0]
		case into != nil && *into == "":
			*into = given[0]
		}
	}
	return nil
}

func unreadable(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &requestError{"the request is too large: it may have 1 MiB"}
	}
	return &requestError{"the request cannot be read: " + err.Error()}
}

func (s *Service) writeAnswered(w http.ResponseWriter, err error) {
	code, text := http.StatusOK, ""
	var bad *requestError
	var argument *stint.ArgumentError
	switch {
	case err == nil:
	case errors.As(err, &bad):
		code, text = http.StatusBadRequest, bad.text
	case errors.Is(err, stint.ErrTaskNotFound), errors.Is(err, stint.ErrInvalidAnswerKey),
		errors.As(err, &argument) && argument.Argument == "Answer.ID":
		// Nobody learns which tasks there are.
		code, text = http.StatusNotFound, "there is no such task, or the key does not fit"
	case errors.As(err, &argument):
		code, text = http.StatusBadRequest, argument.Argument+" "+argument.Problem
	case errors.Is(err, stint.ErrTaskFinished):
		code = http.StatusConflict
		text = "the task was answered before, or aborted, or its deadline has passed"
	case errors.Is(err, stint.ErrTaskBlocked):
		code, text = http.StatusTooEarly, "the task waits for others: answer later"
	default:
		s.failures.Failed(context.Background(),
			outage.Kind{What: "an answer failed", Level: slog.LevelError}, slog.Any("error", err))
		code, text = http.StatusServiceUnavailable, "the answer failed: try again"
	}
	document := map[string]string{}
	if text != "" {
		document["error"] = text
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(document) // the client may be gone
}
