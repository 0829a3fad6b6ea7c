package worker

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stint-tasks/stint"
)

// An Action is the name of an action, tied to the types of its parameters and its result, so that
// the code that inserts tasks and the code that performs them cannot disagree:
//
//	const SendMail worker.Action[Mail, Receipt] = "send-mail"
//
//	task, err := SendMail.Task(Mail{To: "ann"})     // the code that inserts
//	worker.HandleJSON(SendMail, sendMail)           // the code that performs
//	receipt, err := SendMail.Result(info.Result)    // the code that waits or depends on it
//
// The parameters are a P and the result is an R, both kept as JSON. An action without a result has
// struct{} for R.
type Action[P, R any] string

// Task returns a task with the action, whose body is the JSON of params. It has no ID, so it gets a
// random one; the caller may set the ID and all other fields. If params cannot be encoded, Task
// returns the error of encoding/json.
func (a Action[P, R]) Task(params P) (stint.Task, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return stint.Task{}, fmt.Errorf("encode body of action %.80q: %w", string(a), err)
	}
	return stint.Task{Action: string(a), Body: body}, nil
}

// Params returns the parameters that a body holds. If the body is not the JSON of a P, it returns
// the error of encoding/json.
func (a Action[P, R]) Params(body []byte) (P, error) {
	var params P
	if err := json.Unmarshal(body, &params); err != nil {
		return params, fmt.Errorf("decode body: %w", err)
	}
	return params, nil
}

// errNoResult says what the error of encoding/json about no bytes at all does not.
var errNoResult = errors.New("the task has left none")

// Result decodes the result of a task: the Result of a [stint.TaskInfo] or [stint.Input]. It
// returns an error if there is none, as after an abort, or if it is not the JSON of an R.
func (a Action[P, R]) Result(result []byte) (R, error) {
	var value R
	if len(result) == 0 {
		return value, fmt.Errorf("decode result of action %.80q: %w", string(a), errNoResult)
	}
	if err := json.Unmarshal(result, &value); err != nil {
		return value, fmt.Errorf("decode result of action %.80q: %w", string(a), err)
	}
	return value, nil
}
