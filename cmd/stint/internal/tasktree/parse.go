package tasktree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"go.yaml.in/yaml/v4"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// A Tree holds the tasks that a file describes.
type Tree struct{ tasks []*node }

// A node is a task of the file.
type node struct {
	name  string
	shard string // of a file in the form of enq
	// task lacks the fields that depend on IDs.
	task  stint.Task
	value []piece
	// after are the tasks that it waits for, each where it is first named, also within the value.
	after []reference
	// when and whenAny are its conditions, and named all tasks that it waits for.
	when, whenAny []condition
	named         []reference

	line, column int
}

// A condition names its task in of.
type condition struct {
	of    reference
	takes stint.Condition
}

type reference struct {
	name         string
	line, column int
}

// A piece of a body is JSON, and then perhaps the reference to a task.
type piece struct {
	json string
	name string
}

// Parse reads a file. If it is not as the package comment says, the error has an [*Error] for each
// thing that is wrong with it, joined by [errors.Join].
func Parse(file []byte) (*Tree, error) {
	file = joinSurrogates(file)
	decoder := yaml.NewDecoder(bytes.NewReader(file))
	var document, further yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, &Error{Problem: "no tasks"}
	} else if err != nil {
		return nil, syntaxError(file, err)
	}
	p := &parser{}
	switch err := decoder.Decode(&further); {
	case err == nil:
		p.refuse(&further, "second document: a file must be one list of tasks")
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(file, err)
	}
	p.parseList(document.Content[0])
	if len(p.problems) == 0 {
		p.checkReferences()
	}
	if len(p.problems) > 0 {
		return nil, errors.Join(p.problems...)
	}
	return &Tree{tasks: p.tasks}, nil
}

// joinSurrogates replaces the two escapes with which JSON writes some characters by the character,
// since the YAML reader cannot.
func joinSurrogates(file []byte) []byte {
	if !json.Valid(file) {
		return file
	}
	// A backslash that is itself escaped is passed over.
	pair := regexp.MustCompile(`\\\\|\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}`)
	return pair.ReplaceAllFunc(file, func(match []byte) []byte {
		const escaped = len(`\u0000`)
		if len(match) < escaped {
			return match
		}
		var unit [2]rune
		for i := range unit {
			hex := string(match[i*escaped+len(`\u`) : (i+1)*escaped])
			code, _ := strconv.ParseUint(hex, 16, 16) // the pattern says that it is one
			unit[i] = rune(code)
		}
		return []byte(string(utf16.DecodeRune(unit[0], unit[1])))
	})
}

type parser struct {
	tasks    []*node
	places   map[string]int
	problems []error
}

// refuse notes what is wrong at a place.
func (p *parser) refuse(at *yaml.Node, format string, args ...any) {
	p.problems = append(p.problems, &Error{at.Line, at.Column, fmt.Sprintf(format, args...)})
}

func (p *parser) parseList(list *yaml.Node) {
	if list.Kind != yaml.SequenceNode {
		p.refuse(list, "expected a list of tasks, got %s", describe(list))
		return
	}
	if len(list.Content) == 0 {
		p.refuse(list, "no tasks")
	}
	enq, ok := p.isOfEnq(list)
	if !ok {
		return
	}
	needed, parseField := []string{"name", "action"}, p.parseField
	if enq {
		needed, parseField = []string{"task_id", "method"}, p.parseEnqField
	}
	p.places = make(map[string]int, len(list.Content))
	for _, item := range list.Content {
		if item.Kind != yaml.MappingNode {
			p.refuse(item, "expected a task, got %s", describe(item))
			continue
		}
		t := &node{line: item.Line, column: item.Column}
		p.parseFields(item, needed, func(key, value *yaml.Node) { parseField(t, key, value) })
		if enq && t.value == nil {
			t.value = []piece{{json: "[]"}}
		}
		p.tasks = append(p.tasks, t)
	}
}

// parseFields parses the fields of a mapping, and refuses those that come twice and a mapping that
// lacks a needed one.
func (p *parser) parseFields(
	mapping *yaml.Node, needed []string, parse func(key, value *yaml.Node),
) {
	given := make(map[string]bool, len(mapping.Content)/2)
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if given[key.Value] {
			p.refuse(key, "duplicate field %.80q", key.Value)
			continue
		}
		given[key.Value] = true
		parse(key, value)
	}
	for _, field := range needed {
		if !given[field] {
			p.refuse(mapping, "missing field %q", field)
		}
	}
}

// FieldsHelp explains the fields that parseField knows.
const FieldsHelp = `  name        names the task within the file; required
  action      the name of the procedure to perform; required
  key         groups tasks of the action, such as by customer; limits per key count by it
  answer_key  what must come with the answer to a task whose action is stint.External
  fail_fast   true aborts what only this task needs when this one is aborted
  value       the task's body, as JSON
  headers     a mapping of texts, which say something about the task
  cost        what each try takes from limits that count costs (default 1)
  after       a list of the names of tasks that this one waits for
  when, when_any
              lists of conditions, as in: stint help insert; their after is a name, too
  priority    a whole number, higher first (default 0)
  max_tries   how often the task is fetched at most (default 25; -1: no limit)
  not_before  a time in RFC 3339, before which the task is not fetched
  deadline    a time at which the task is aborted unless it has finished
  on_abort    if a task that this one waits for is aborted: abort-too (default) or run-anyway
`

func (p *parser) parseField(t *node, key, value *yaml.Node) {
	switch key.Value {
	case "name":
		p.setName(t, p.text(value), value)
	case "action":
		t.task.Action = p.text(value)
	case "key":
		t.task.Key = p.text(value)
	case "answer_key":
		t.task.AnswerKey = stint.AnswerKey(p.text(value))
	case "value":
		p.parseValue(t, value)
	case "headers":
		t.task.Headers = p.headers(value)
	case "after":
		p.parseAfter(t, value)
	case "when":
		t.when = p.conditions(t, value)
	case "when_any":
		t.whenAny = p.conditions(t, value)
	case "priority":
		priority := p.integer(value, math.MinInt16, math.MaxInt16)
		t.task.Priority = int16(priority) //nolint:gosec // it is in the range
	case "cost":
		t.task.Cost = p.integer(value, 0, 1_000_000_000)
	case "max_tries":
		t.task.MaxTries = p.integer(value, stint.UnlimitedTries, math.MaxInt32)
	case "not_before":
		t.task.NotBefore = p.time(value)
	case "deadline":
		t.task.Deadline = p.time(value)
	case "fail_fast":
		t.task.FailFast = p.boolean(value)
	case "on_abort":
		t.task.OnAbort = p.policy(value)
	default:
		p.refuseField(key)
	}
}

func (p *parser) refuseField(key *yaml.Node) { p.refuse(key, "unknown field %.80q", key.Value) }

// setName names a task, unless the name is empty, which was refused.
func (p *parser) setName(t *node, name string, at *yaml.Node) {
	t.name = name
	if name == "" {
		return
	}
	if place, ok := p.places[name]; ok {
		p.refuse(at, "name %.80q is already used at line %d", name, p.tasks[place].line)
		return
	}
	p.places[name] = len(p.tasks)
}

func (p *parser) parseAfter(t *node, list *yaml.Node) {
	if list.Kind != yaml.SequenceNode {
		p.refuse(list, "expected a list of names, got %s", describe(list))
		return
	}
	for _, item := range list.Content {
		if name := p.text(item); name != "" {
			t.waitFor(name, item)
		}
	}
}

func (t *node) waitFor(name string, at *yaml.Node) {
	named := func(r reference) bool { return r.name == name }
	if !slices.ContainsFunc(t.after, named) {
		t.after = append(t.after, reference{name, at.Line, at.Column})
		t.named = append(t.named, t.after[len(t.after)-1])
	}
}

// conditions returns the conditions of a list.
func (p *parser) conditions(t *node, list *yaml.Node) (conditions []condition) {
	if list.Kind != yaml.SequenceNode {
		p.refuse(list, "expected a list of conditions, got %s", describe(list))
		return nil
	}
	for _, item := range list.Content {
		if item.Kind != yaml.MappingNode {
			p.refuse(item, "expected a condition, got %s", describe(item))
			continue
		}
		var c condition
		p.parseFields(item, []string{"after"}, func(key, value *yaml.Node) {
			switch key.Value {
			case "after":
				c.of = reference{p.text(value), value.Line, value.Column}
			case "states":
				for _, state := range p.texts(value) {
					c.takes.States = append(c.takes.States, stint.State(state))
				}
			case "results":
				c.takes.Results = p.texts(value)
			default:
				p.refuseField(key)
			}
		})
		conditions, t.named = append(conditions, c), append(t.named, c.of)
	}
	return conditions
}

// texts returns the texts of a list.
func (p *parser) texts(list *yaml.Node) (texts []string) {
	if list.Kind != yaml.SequenceNode {
		p.refuse(list, "expected a list of texts, got %s", describe(list))
	}
	for _, item := range list.Content {
		texts = append(texts, p.text(item))
	}
	return texts
}

// hasCondition reports whether the task waits for another one by a condition.
func (t *node) hasCondition(name string) bool {
	named := func(c condition) bool { return c.of.name == name }
	return slices.ContainsFunc(t.when, named) || slices.ContainsFunc(t.whenAny, named)
}

// text returns the text of a value, and refuses a value that is empty or no text.
func (p *parser) text(value *yaml.Node) string {
	switch {
	case value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str":
		p.refuse(value, "expected text, got %s", describe(value))
	case value.Value == "":
		p.refuse(value, "empty text")
	case strings.IndexByte(value.Value, 0) >= 0:
		p.refuse(value, "text contains a NUL")
	default:
		return value.Value
	}
	return ""
}

func (p *parser) headers(mapping *yaml.Node) map[string]string {
	if mapping.Kind != yaml.MappingNode {
		p.refuse(mapping, "expected a mapping of texts, got %s", describe(mapping))
		return nil
	}
	found := map[string]string{}
	p.parseFields(mapping, nil, func(key, value *yaml.Node) {
		found[p.text(key)] = p.text(value)
	})
	return found
}

func (p *parser) integer(value *yaml.Node, least, most int) int {
	n, err := strconv.Atoi(value.Value)
	if value.Kind != yaml.ScalarNode || value.ShortTag() != "!!int" || err != nil ||
		n < least || n > most {
		p.refuse(value, "expected a number from %d to %d", least, most)
		return 0
	}
	return n
}

func (p *parser) boolean(value *yaml.Node) bool {
	var is bool
	if value.ShortTag() != "!!bool" || value.Decode(&is) != nil {
		p.refuse(value, "expected true or false")
	}
	return is
}

func (p *parser) time(value *yaml.Node) time.Time {
	t, err := time.Parse(time.RFC3339Nano, value.Value)
	if value.Kind != yaml.ScalarNode || err != nil {
		p.refuse(value, "expected a time such as 2026-12-31T08:00:00Z")
	}
	return t
}

func (p *parser) policy(value *yaml.Node) stint.OnAbort {
	switch value.Value {
	case display.AbortToo:
		return stint.AbortToo
	case display.RunAnyway:
		return stint.RunAnyway
	}
	p.refuse(value, "expected abort-too or run-anyway")
	return stint.AbortToo
}

// describe says what a part of the file is.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	case yaml.AliasNode:
		return "an alias"
	default:
		return fmt.Sprintf("%.80q", n.Value)
	}
}
