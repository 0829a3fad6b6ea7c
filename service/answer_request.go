package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/stint-tasks/stint"
)

// answerBodyMax is the size of a request to [Service.Answers], which anybody may send.
const answerBodyMax = 1 << 20

// An answerJSON is the body of a request for an answer.
type answerJSON struct {
	ID     stint.TaskID     `json:"id"`
	Key    stint.AnswerKey  `json:"key"`
	Code   stint.StatusCode `json:"code"`
	Status string           `json:"status"`
	Result *string          `json:"result"`
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

func unreadable(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &requestError{"the request is too large: it may have 1 MiB"}
	}
	return &requestError{"the request cannot be read: " + err.Error()}
}
