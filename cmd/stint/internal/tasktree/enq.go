package tasktree

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// isOfEnq reports whether the tasks of a list are in the form of enq. A list that has fields of
// both forms is refused.
func (p *parser) isOfEnq(list *yaml.Node) (enq, ok bool) {
	var first *yaml.Node // the first field that tells the forms apart
	for _, item := range list.Content {
		if item.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i < len(item.Content); i += 2 {
			key, ofEnq := item.Content[i], false
			switch key.Value {
			case "name", "action", "value":
			case "task_id", "method", "args":
				ofEnq = true
			default:
				continue
			}
			switch {
			case first == nil:
				first, enq = key, ofEnq
			case enq != ofEnq:
				p.refuse(key, "field %q does not go with field %q at line %d: all tasks of a file "+
					"have either name, action and value, or task_id, method and args",
					key.Value, first.Value, first.Line)
				return false, false
			}
		}
	}
	return enq, true
}

// parseEnqField parses a field of a task in the form of enq.
func (p *parser) parseEnqField(t *node, key, value *yaml.Node) {
	switch key.Value {
	case "task_id":
		p.setName(t, p.enqName(value), value)
		t.shard, _, _ = strings.Cut(t.name, "/")
	case "method":
		t.task.Action = p.text(value)
	case "args":
		p.parseArguments(t, value)
	default:
		p.refuseField(key)
	}
}

// enqName returns the name of the task with a task_id: the shard, a slash and the id. It is empty
// if the task_id is refused.
func (p *parser) enqName(taskID *yaml.Node) string {
	if taskID.Kind != yaml.MappingNode {
		p.refuse(taskID, "expected a shard and an id, got %s", describe(taskID))
		return ""
	}
	var shard, id string
	p.parseFields(taskID, []string{"shard", "id"}, func(key, value *yaml.Node) {
		switch key.Value {
		case "shard":
			shard = p.text(value)
			if strings.Contains(shard, "/") { // or another shard and id would make the same name
				p.refuse(value, "shard %.80q has a slash", shard)
				shard = ""
			}
		case "id":
			id = p.text(value)
		default:
			p.refuseField(key)
		}
	})
	if shard == "" || id == "" {
		return ""
	}
	return shard + "/" + id
}

// parseArguments makes the pieces of a task's body, which is a list, from its arguments.
func (p *parser) parseArguments(t *node, list *yaml.Node) {
	if list.Kind != yaml.SequenceNode {
		p.refuse(list, "expected a list of arguments, got %s", describe(list))
		return
	}
	w := &writer{parser: p, task: t}
	w.json.WriteByte('[')
	for i, argument := range list.Content {
		if i > 0 {
			w.json.WriteByte(',')
		}
		w.writeArgument(argument)
	}
	w.json.WriteByte(']')
	t.value = append(t.value, piece{json: w.json.String()})
}

func (w *writer) writeArgument(argument *yaml.Node) {
	if argument.Kind != yaml.MappingNode {
		w.refuse(argument, "expected an argument, got %s", describe(argument))
		return
	}
	var kind, value, taskID *yaml.Node
	w.parseFields(argument, []string{"type"}, func(key, field *yaml.Node) {
		switch key.Value {
		case "type":
			kind = field
		case "value_json":
			value = field
		case "task_id":
			taskID = field
		default:
			w.refuseField(key)
		}
	})
	if kind == nil {
		return
	}
	switch text := w.text(kind); {
	case text == "":
	case text != "VALUE" && text != "TASKREF":
		w.refuse(kind, "expected VALUE or TASKREF, got %s", describe(kind))
	case text == "VALUE" && value != nil && taskID == nil:
		w.writeValueJSON(value)
	case text == "TASKREF" && taskID != nil && value == nil:
		w.json.WriteString("{" + quote(resultKey) + ":")
		w.writeReference(w.enqName(taskID), taskID)
		w.json.WriteByte('}')
	default:
		w.refuse(argument, "a VALUE needs value_json alone, a TASKREF task_id alone")
	}
}

// writeValueJSON writes a value that is given as JSON in base64, or as JSON. No text is both: if
// one in base64 begins as JSON may begin, the bytes that it stands for do not.
func (w *writer) writeValueJSON(value *yaml.Node) {
	text := w.text(value)
	if text == "" {
		return
	}
	written := []byte(text)
	if !json.Valid(written) {
		// Programs that write base64 break it into lines.
		decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		switch {
		case err != nil:
			w.refuse(value, "expected JSON, or JSON in base64, got %.80q", text)
			return
		case !json.Valid(decoded) || !utf8.Valid(decoded):
			w.refuse(value, "expected JSON in base64, got %.80q in base64", decoded)
			return
		}
		written = decoded
	}
	if hasResultKey(written) {
		w.refuse(value, "value_json has the key %q; a TASKREF stands for a result", resultKey)
		return
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, written) // it is valid
	w.json.Write(compact.Bytes())
}

// hasResultKey reports whether valid JSON has the key that stands for a result. A worker would look
// for a task there.
func hasResultKey(text []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	_ = decoder.Decode(&value) // it is valid
	return holdsResultKey(value)
}

func holdsResultKey(value any) bool {
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, holdsResultKey)
	case map[string]any:
		for key, item := range value {
			if key == resultKey || holdsResultKey(item) {
				return true
			}
		}
	}
	return false
}
