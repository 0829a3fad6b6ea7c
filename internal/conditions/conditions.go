// Package conditions reads conditions of tasks as people write them, for the command and for a form
// of the web interface.
package conditions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/stint-tasks/stint"
)

// What the store takes of a condition.
const resultsMax, resultBytesMax = 32, 255

// Read reads a list of objects of JSON with the fields of a [stint.Condition], which the store
// takes if the tasks that they name are there. The error says what the list must be.
func Read(list []byte) (read []stint.Condition, err error) {
	var text json.RawMessage
	if err := json.Unmarshal(list, &text); err != nil {
		return nil, fmt.Errorf("must be JSON: %w", err)
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&read); err != nil {
		return nil, errors.New("must be a list of objects with after, and perhaps states and " +
			"results, which are lists of strings")
	}
	named := make(map[stint.TaskID]bool, len(read))
	for _, c := range read {
		if err := check(&c); err != nil {
			return nil, err
		}
		if named[c.After] {
			return nil, fmt.Errorf("%q is named twice; name it once, with all its states and "+
				"results", string(c.After))
		}
		named[c.After] = true
	}
	return read, nil
}

func check(c *stint.Condition) error {
	for _, state := range c.States {
		switch state {
		case stint.StateCompleted, stint.StateAborted, stint.StateSkipped:
		default:
			return fmt.Errorf(`states of a condition must be "completed", "aborted" or `+
				`"skipped", not %q`, string(state))
		}
	}
	switch {
	case c.After == "":
		return errors.New("after of a condition must be the ID of a task")
	case len(c.Results) > resultsMax:
		return fmt.Errorf("results of a condition must be at most %d", resultsMax)
	case slices.ContainsFunc(c.Results, func(r string) bool { return len(r) > resultBytesMax }):
		return fmt.Errorf("results of a condition must have at most %d bytes each", resultBytesMax)
	case len(c.Results) > 0 && len(c.States) > 0 &&
		!slices.Contains(c.States, stint.StateCompleted):
		return errors.New(`results of a condition are those of a task that completes: add ` +
			`"completed" to its states`)
	}
	return nil
}
