package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
)

const (
	// answersMax is how many answers to [Service.Answers] are under way at a time.
	answersMax = 8

	// answersHeldMax is how many requests are there at a time, and answerSentMax how long each may
	// take to arrive: anybody may send them, and they are in memory as long.
	answersHeldMax = 100
	answerSentMax  = 10 * time.Second
)

// Answers returns a handler for those who answer external tasks that have an answer key, and who
// need no other credential: people with a link, and systems that call back. Mount it where they
// reach it; stint serve has it at /answer.
//
// A request is a POST with a form, as a page in a browser sends it, or with a JSON object. Both
// have id, key, code ("completed", "aborted" or "skipped"), status (a text for people) and result.
// All may be in the query of the URL instead. 400 refuses other fields, one that comes twice, and a
// bad value, such as a key of less than 16 bytes. The answer is a JSON object: empty with status
// 200 if this answer took effect, and otherwise with an error. 404 says that the key does not fit,
// or that there is no such task; 409 that the task was answered before, or aborted, or that its
// deadline has passed; 425 that it waits for other tasks, and can be answered later; 503 to try
// again. Each task is answered once; a request repeated because its answer was lost gets 409.
//
// A hundred requests may be under way, each of 1 MiB, and take ten seconds to arrive.
//
// The actor of the task is then "answer".
func (s *Service) Answers() http.Handler {
	return s.answers(make(chan struct{}, answersHeldMax), make(chan struct{}, answersMax))
}

// answers is [Service.Answers] with channels for those that are there, and that are under way.
func (s *Service) answers(held, underWay chan struct{}) http.Handler {
	return posted(s.timed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case held <- struct{}{}:
			defer func() { <-held }()
		default:
			s.writeAnswered(w, errManyAnswers)
			return
		}
		if r.Body != http.NoBody { // else the deadline would end the request itself
			// Servers without deadlines do without.
			_ = http.NewResponseController(w).SetReadDeadline(now().Add(answerSentMax))
		}
		answer, err := readAnswer(w, r)
		select {
		case underWay <- struct{}{}:
			defer func() { <-underWay }()
		case <-r.Context().Done(): // the sender may still read, and silence would be a success
			s.writeAnswered(w, errManyAnswers)
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

var errManyAnswers = errors.New("too many answers are under way: try again")

func (s *Service) writeAnswered(w http.ResponseWriter, err error) {
	code, text := http.StatusOK, ""
	var bad *requestError
	var argument *stint.ArgumentError
	switch {
	case err == nil:
	case errors.Is(err, errManyAnswers):
		code, text = http.StatusServiceUnavailable, errManyAnswers.Error()
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
