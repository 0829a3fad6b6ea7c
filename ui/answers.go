package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// resultMax is how many bytes a result may have that somebody types.
const resultMax = 64 << 10

// asSeen returns the only task of a form, as it is now. It must be as it was seen.
func (h *Handler) asSeen(ctx context.Context, r *request) (*stint.Explanation, bulk.Task, error) {
	tasks, err := unpackTasks(r.PostForm["task"])
	if err != nil || len(tasks) != 1 {
		return nil, bulk.Task{}, refuse.ErrBadForm
	}
	now, err := h.asked.Explain(ctx, tasks[0].ID)
	if err != nil {
		return nil, tasks[0], err
	}
	if !now.Task.InsertedAt.Equal(tasks[0].Inserted) ||
		!now.Task.FinishedAt.Equal(tasks[0].Finished) {
		return nil, tasks[0], refuse.ErrAnswered
	}
	return &now, tasks[0], nil
}

// previewAnswer is the form of an answer, with what becomes of the tasks behind.
func (h *Handler) previewAnswer(ctx context.Context, r *request) (data previewData, err error) {
	now, task, err := h.asSeen(ctx, r)
	if err != nil {
		return data, err
	}
	if now.Task.Action != stint.External {
		return data, refuse.ErrNotExternal
	}
	data = previewData{
		Heading: "Answer " + show.Text(task.ID), Button: "Answer", Asks: "Message, for people",
		Sentence: show.Say("It is answered once. The tasks that wait for it go on when it is " +
			"completed."),
		Fields: []field{{"task", bulk.Pack(task)}}, Answer: &answerForm{ResultMax: resultMax},
	}
	if h.asked.Change != nil {
		abort, _ := kindNamed("abort")
		would, err := h.asked.Change(ctx, abort.states, []bulk.Task{task}, true,
			abort.change(wanted{}))
		if err == nil && would.Others > 0 {
			so := "so are "
			if would.Others == 1 {
				so = "so is "
			}
			data.Details = append(data.Details, show.Say("If it is aborted, "+so+
				display.Count(int64(would.Others), "task")+" behind it."))
		}
	}
	if now.Task.State == stint.StateBlocked || now.Task.State == stint.StateScheduled {
		data.Details = append(data.Details, show.Say("It waits itself, and takes no answer yet."))
	}
	return data, nil
}

// answer answers a task.
func (h *Handler) answer(ctx context.Context, r *request) (made, error) {
	form := r.PostForm
	_, task, err := h.asSeen(ctx, r)
	m := made{
		told: url.Values{"id": {string(task.ID)}},
		what: []slog.Attr{
			slog.String("task", string(task.ID)), slog.String("code", form.Get("code")),
		},
	}
	if err != nil {
		return m, err
	}
	answer := stint.Answer{
		ID: task.ID, Key: stint.AnswerKey(form.Get("answer-key")),
		Status: clean(form.Get("reason"), reasonMax),
		Result: []byte(strings.ReplaceAll(form.Get("result"), "\r\n", "\n")),
	}
	switch form.Get("code") {
	case "completed":
		answer.Code = stint.StatusCompleted
	case "aborted":
		answer.Code = stint.StatusAborted
	case "skipped":
		answer.Code = stint.StatusSkipped
	default:
		return m, h.answerAgain(ctx, r, refuse.ErrNoCode)
	}
	switch {
	case len(answer.Result) > resultMax:
		return m, h.answerAgain(ctx, r, refuse.ErrLargeResult)
	case len(answer.Result) > 0 && answer.Code == stint.StatusSkipped:
		return m, h.answerAgain(ctx, r, refuse.ErrSkippedResult)
	}
	by, ok := h.asked.Reader.(verbs.Answerer)
	if !ok {
		return m, refuse.ErrBadForm
	}
	who := h.who(r)
	if who == "" {
		who = "web interface"
	}
	verdicts, err := by.AnswerTasks(ctx, stint.ActorID(who), []stint.Answer{answer})
	if err == nil && len(verdicts) == 1 {
		err = verdicts[0]
	}
	var wrong *stint.ArgumentError
	isKey := errors.As(err, &wrong) && wrong.Argument == "Answer.Key"
	switch {
	case errors.Is(err, stint.ErrTaskFinished):
		err = refuse.ErrAnswered
	case errors.Is(err, stint.ErrTaskBlocked):
		err = h.answerAgain(ctx, r, refuse.ErrTooEarly)
	case errors.Is(err, stint.ErrInvalidAnswerKey) || isKey:
		err = h.answerAgain(ctx, r, refuse.ErrWrongKey)
	}
	return m, err
}

// answerAgain has the form of an answer shown again with what was typed, which nobody types twice,
// and with why it was not taken.
func (h *Handler) answerAgain(ctx context.Context, r *request, why *refuse.PageError) error {
	data, err := h.previewAnswer(ctx, r)
	if err != nil {
		return why
	}
	form := r.PostForm
	data.Answer.Code, data.Answer.Result = form.Get("code"), form.Get("result")
	data.Answer.Key, data.Answer.Problem = form.Get("answer-key"), why.Sentence
	return &formError{data: data, err: why}
}
