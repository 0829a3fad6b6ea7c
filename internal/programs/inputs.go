package programs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/shards"
)

// referenceKey is the only key of an object in a body that stands for a predecessor's result.
const referenceKey = "$result"

// An input is a predecessor as a program sees it.
type input struct {
	ID         stint.TaskID     `json:"id"`
	StatusCode stint.StatusCode `json:"status_code"`
	AbortCause stint.AbortCause `json:"abort_cause,omitempty"`
	Status     string           `json:"status,omitempty"`
	Result     any              `json:"result"`
}

// fromShards gives the inputs from other shards the IDs that their tasks have there. See package
// shards.
func fromShards(inputs []stint.Input) []stint.Input {
	for i, in := range inputs {
		if of, ok := shards.StandsFor(in.ID); ok {
			inputs[i].ID = of.Task
		}
	}
	return inputs
}

// writeInputs writes predecessors into a file.
func writeInputs(path string, predecessors []stint.Input) error {
	inputs := make([]input, len(predecessors))
	for i, p := range predecessors {
		inputs[i] = input{p.ID, p.StatusCode, p.AbortCause, p.Status, asJSON(p.Result)}
	}
	text, err := encode(inputs)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// asJSON returns the value that stands for a result in JSON.
func asJSON(result []byte) any {
	switch {
	case result == nil:
		return nil
	case !utf8.Valid(result):
		return map[string]string{"$base64": base64.StdEncoding.EncodeToString(result)}
	case json.Valid(result):
		return json.RawMessage(result)
	}
	return string(result)
}

// encode writes JSON as people would, without escapes for HTML.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// errLargeBody reports a body in which the same results stand so often that it is too large.
var errLargeBody = errors.New("too large with the results that it refers to")

// resolve replaces the references in a JSON body by the results of predecessors, unless these have
// more than resolvedBytesMax.
func resolve(body []byte, predecessors []stint.Input) ([]byte, error) {
	quoted := []byte(`"` + referenceKey + `"`)
	if len(predecessors) == 0 || !bytes.Contains(body, quoted) || !json.Valid(body) {
		return body, nil
	}
	r := resolver{results: make(map[string]any, len(predecessors)), left: resolvedBytesMax}
	for _, p := range predecessors {
		r.results[string(p.ID)] = asJSON(p.Result)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	value = r.resolve(value)
	switch {
	case r.left < 0:
		return nil, fmt.Errorf("%w: more than %d bytes", errLargeBody, resolvedBytesMax)
	case r.unknown != nil:
		return nil, fmt.Errorf("body refers to the result of task %.80q, "+
			"which is none of those that this one waited for", *r.unknown)
	case !r.found:
		return body, nil
	}
	return encode(value)
}

type resolver struct {
	results map[string]any
	found   bool
	unknown *string
	left    int // bytes that results may still have
}

func (r *resolver) resolve(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = r.resolve(value[i])
		}
	case map[string]any:
		if id, ok := value[referenceKey].(string); ok && len(value) == 1 {
			result, known := r.results[id]
			if !known {
				r.unknown = &id
			}
			r.found = true
			if r.left -= sizeOf(result); r.left < 0 {
				return nil
			}
			return result
		}
		for key := range value {
			value[key] = r.resolve(value[key])
		}
	}
	return value
}

// sizeOf is about how long a result is in JSON.
func sizeOf(result any) int {
	switch result := result.(type) {
	case json.RawMessage:
		return len(result)
	case map[string]string:
		return len(result["$base64"])
	case string:
		return len(result)
	}
	return 0
}
