package worker_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/worker"
)

func TestAction_RefusesParametersWithoutJSON(t *testing.T) {
	t.Parallel()
	const act worker.Action[chan int, struct{}] = "act"
	_, err := act.Task(make(chan int))
	var unsupported *json.UnsupportedTypeError
	if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), `"act"`) {
		t.Errorf("error = %v, want that of encoding/json, with the action", err)
	}
}

func TestAction_RefusesAnotherResult(t *testing.T) {
	t.Parallel()
	for _, result := range []string{"", "{", `{"Number": "seven"}`, `[] []`} {
		receipt, err := SendMail.Result([]byte(result))
		if err == nil || !strings.Contains(err.Error(), `"send-mail"`) {
			t.Errorf("Result(%q) = %+v, %v, want an error with the action", result, receipt, err)
		}
	}
}
