package tasktree

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// resultKey is the only key of a mapping that refers to a task.
const resultKey = "$result"

// parseValue makes the pieces of a task's body from its value.
func (p *parser) parseValue(t *node, value *yaml.Node) {
	w := &writer{parser: p, task: t}
	w.write(value)
	t.value = append(t.value, piece{json: w.json.String()})
}

// A writer writes a value as JSON.
type writer struct {
	*parser
	task *node
	// json is the piece that is being written.
	json strings.Builder
}

func (w *writer) write(value *yaml.Node) {
	if value.Style&yaml.TaggedStyle != 0 {
		w.refuse(value, "unsupported tag %.80s", value.Tag)
		return
	}
	switch value.Kind {
	case yaml.SequenceNode:
		w.json.WriteByte('[')
		for i, item := range value.Content {
			if i > 0 {
				w.json.WriteByte(',')
			}
			w.write(item)
		}
		w.json.WriteByte(']')
	case yaml.MappingNode:
		w.writeMapping(value)
	case yaml.ScalarNode:
		w.writeScalar(value)
	default:
		w.refuse(value, "%s is not supported; write it out", describe(value))
	}
}

func (w *writer) writeMapping(mapping *yaml.Node) {
	seen := make(map[string]bool, len(mapping.Content))
	w.json.WriteByte('{')
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			w.refuse(key, "expected a text key, got %s", describe(key))
			continue
		case seen[key.Value]:
			w.refuse(key, "duplicate key %.80q", key.Value)
			continue
		}
		seen[key.Value] = true
		if i > 0 {
			w.json.WriteByte(',')
		}
		w.json.WriteString(quote(key.Value))
		w.json.WriteByte(':')
		switch {
		case key.Value != resultKey:
			w.write(value)
		case len(mapping.Content) > 2:
			w.refuse(key, "%s must be the only key", resultKey)
		default:
			w.writeReference(w.text(value), value)
		}
	}
	w.json.WriteByte('}')
}

// writeReference ends a piece with a reference, unless the name is empty, which was refused.
func (w *writer) writeReference(name string, at *yaml.Node) {
	if name == "" {
		return
	}
	w.task.waitFor(name, at)
	w.task.value = append(w.task.value, piece{json: w.json.String(), name: name})
	w.json.Reset()
}

func (w *writer) writeScalar(value *yaml.Node) {
	plain := value.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|
		yaml.LiteralStyle|yaml.FoldedStyle) == 0
	// A number of JSON is taken as it is written, whatever its size and precision.
	if plain && jsonNumber(value.Value) {
		w.json.WriteString(value.Value)
		return
	}
	switch value.ShortTag() {
	case "!!str", "!!timestamp", "!!merge":
		w.json.WriteString(quote(value.Value))
	case "!!null":
		w.json.WriteString("null")
	case "!!bool", "!!int", "!!float":
		if err := w.writeOther(value); err != nil {
			w.refuse(value, "%.80q cannot be written in JSON", value.Value)
		}
	default:
		w.refuse(value, "unsupported tag %.80s", value.Tag)
	}
}

// jsonNumber reports whether text is a number of JSON.
func jsonNumber(text string) bool {
	return regexp.MustCompile(`^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$`).MatchString(text)
}

// writeOther writes a value that YAML writes in another way than JSON, such as 0xff and True.
func (w *writer) writeOther(value *yaml.Node) error {
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return err
	}
	if _, ok := decoded.(string); ok {
		return errors.New("not a number")
	}
	text, err := json.Marshal(decoded)
	if err != nil {
		return err // such as an infinite number
	}
	w.json.Write(text)
	return nil
}

// quote returns a text as JSON writes it.
func quote(text string) string {
	var quoted strings.Builder
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // every text has a JSON
	return strings.TrimSuffix(quoted.String(), "\n")
}
