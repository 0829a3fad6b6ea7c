package command

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/conditions"
	"github.com/stint-tasks/stint/internal/display"
)

func jsonTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "json",
		Short: "What --json prints",
		Long: `Under --json, ls, ends, actors, errors, changes, limits, schedule ls, token ls,
check --follow and demo print JSON lines, an object for each task, actor, group, change,
action, schedule, token, violation or event; export always does; worker and serve log JSON
lines on standard error; top and ui refuse; statements and completion print text; all others
print one JSON document, described by their help.

A task has these fields. Times are in RFC 3339 format, in UTC. Fields that do not apply
to a task are left out.

  id, action, key, headers, priority, cost (if it is not 1), max_tries (-1: no limit),
  deadline, post_result,
  on_abort ("abort-too" or "run-anyway")
                   as they were inserted
  shard            with --topology: where the task is; id is SHARD/ID then
  inserted_at      a time
  status_code      "pending", "in-progress", "completed", "aborted" or "skipped"
  state            the same, with "blocked", "scheduled" and "ready" for "pending"; "unknown"
                   if the shard of the task is away
  abort_cause      "returned", "tries", "dependency", "cancelled", "replaced", "expired", "lost"
  tries            how often the task has been fetched
  actor            who owns the task, or was the last to own it
  not_before       when a scheduled task becomes ready
  owned_at         when a task in progress, or one that its owner has returned, was fetched
  lease_until      when the lease on a task in progress expires
  finished_at      when the task completed, was aborted or was skipped
  status           what the owner last said of the task, for people
  progress         how far the owner said it is, from 0 to 1
  total_dependencies
                   how many tasks this one waits or waited for; from show, wait and explain
  signals          for how many of them it does not wait any longer
  body, result     strings; not from ls, explain and graph; of ends the result only
  body_base64, result_base64
                   the same as bytes in base64, if they are not UTF-8
  hidden           body and result are left out, if there are any: you may not read them`,
		Example: `  stint ls --json --state aborted | jq -r .id
  stint show greet/world --json | jq -r .result`,
	}
}

// A taskJSON is a task as --json prints it.
type taskJSON struct {
	ID           string            `json:"id"`
	Shard        string            `json:"shard,omitzero"`
	Action       string            `json:"action"`
	Key          string            `json:"key,omitzero"`
	Headers      map[string]string `json:"headers,omitempty"`
	StatusCode   stint.StatusCode  `json:"status_code"`
	State        stint.State       `json:"state"`
	AbortCause   stint.AbortCause  `json:"abort_cause,omitzero"`
	Priority     int16             `json:"priority"`
	Cost         int               `json:"cost,omitzero"`
	Tries        int               `json:"tries"`
	MaxTries     int               `json:"max_tries"`
	PostResult   bool              `json:"post_result"`
	OnAbort      string            `json:"on_abort"`
	Actor        string            `json:"actor,omitzero"`
	Status       string            `json:"status,omitzero"`
	Progress     float64           `json:"progress,omitzero"`
	InsertedAt   time.Time         `json:"inserted_at"`
	NotBefore    time.Time         `json:"not_before,omitzero"`
	Deadline     time.Time         `json:"deadline,omitzero"`
	OwnedAt      time.Time         `json:"owned_at,omitzero"`
	LeaseUntil   time.Time         `json:"lease_until,omitzero"`
	FinishedAt   time.Time         `json:"finished_at,omitzero"`
	Dependencies int               `json:"total_dependencies,omitzero"`
	Signals      *int              `json:"signals,omitzero"`
	Body         *string           `json:"body,omitzero"`
	BodyBase64   []byte            `json:"body_base64,omitzero"`
	Result       *string           `json:"result,omitzero"`
	ResultBase64 []byte            `json:"result_base64,omitzero"`
	Hidden       bool              `json:"hidden,omitzero"`
}

func (p *program) newTaskJSON(info *stint.TaskInfo) taskJSON {
	task := taskJSON{
		ID: string(info.ID), Action: info.Action, Key: info.Key, StatusCode: info.StatusCode,
		State: info.State, AbortCause: info.AbortCause, Priority: info.Priority, Tries: info.Tries,
		MaxTries: info.MaxTries, PostResult: info.PostResult, OnAbort: display.AbortToo,
		Actor: string(info.Actor), Status: info.Status, Progress: info.Progress,
		Headers: info.Headers, Hidden: info.Hidden, Cost: info.Cost,
		InsertedAt: utc(info.InsertedAt), NotBefore: utc(info.NotBefore),
		Deadline: utc(info.Deadline), LeaseUntil: utc(info.LeaseUntil),
		OwnedAt: utc(info.OwnedAt), FinishedAt: utc(info.FinishedAt),
	}
	if info.OnAbort == stint.RunAnyway {
		task.OnAbort = display.RunAnyway
	}
	if info.TotalDependencies > 0 {
		task.Dependencies, task.Signals = info.TotalDependencies, &info.Signals
	}
	if p.topology != "" {
		task.Shard, _, _ = strings.Cut(task.ID, "/")
	}
	task.Body, task.BodyBase64 = textOrBytes(info.Body)
	task.Result, task.ResultBase64 = textOrBytes(info.Result)
	return task
}

// A scheduledTaskJSON is a task of a schedule, as schedule ls prints it and put reads it.
type scheduledTaskJSON struct {
	ID            stint.TaskID      `json:"id,omitzero"`
	Action        string            `json:"action"`
	Key           string            `json:"key,omitzero"`
	Body          *string           `json:"body,omitzero"`
	BodyBase64    []byte            `json:"body_base64,omitzero"`
	Headers       map[string]string `json:"headers,omitempty"`
	Priority      int16             `json:"priority,omitzero"`
	Cost          int               `json:"cost,omitzero"`
	MaxTries      int               `json:"max_tries,omitzero"`
	PostResult    bool              `json:"post_result,omitzero"`
	OnAbort       string            `json:"on_abort,omitzero"`
	FailFast      bool              `json:"fail_fast,omitzero"`
	After         []stint.TaskID    `json:"after,omitempty"`
	ToSignalAfter []stint.TaskID    `json:"to_signal_after,omitempty"`
	When          []stint.Condition `json:"when,omitempty"`
	WhenAny       []stint.Condition `json:"when_any,omitempty"`
}

func newScheduledTaskJSON(task *stint.Task) scheduledTaskJSON {
	shown := scheduledTaskJSON{
		ID: task.ID, Action: task.Action, Key: task.Key, Priority: task.Priority,
		MaxTries: task.MaxTries, PostResult: task.PostResult, After: task.After,
		ToSignalAfter: task.ToSignalAfter, FailFast: task.FailFast, Headers: task.Headers,
		Cost: task.Cost,
		When: task.When, WhenAny: task.WhenAny,
	}
	if task.OnAbort == stint.RunAnyway {
		shown.OnAbort = display.RunAnyway
	}
	shown.Body, shown.BodyBase64 = textOrBytes(task.Body)
	return shown
}

func (p *program) tasksJSON(infos []stint.TaskInfo) []taskJSON {
	tasks := make([]taskJSON, len(infos))
	for i := range infos {
		tasks[i] = p.newTaskJSON(&infos[i])
	}
	return tasks
}

// utc returns t in UTC. It leaves the zero time as it is, for omitzero.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

func textOrBytes(value []byte) (*string, []byte) {
	if value == nil || !utf8.Valid(value) {
		return nil, value
	}
	text := string(value)
	return &text, nil
}

// taskFieldsHelp explains the fields that setField knows.
const taskFieldsHelp = `  id               a string; if it is left out, a new UUID, which is printed
  action           a string, the name of the procedure to perform; the only required field
  key              a string by which tasks of the action are grouped, such as a customer;
                   limits per key count by it
  body             its parameters: a string, or any other JSON, whose text is the body
  body_base64      the same, as bytes in base64
  headers          an object of strings, which say something about the task, such as of
                   which trace it is a part
  priority         a whole number, higher first (default 0)
  cost             what each try takes from limits that count costs (default 1)
  max_tries        how many times the task is fetched at most (default 25; -1: no
                   limit)
  not_before       a time in RFC 3339, before which the task is not fetched
  deadline         a time at which the task is aborted unless it has finished
  answer_key       what must come with the answer to a task whose action is stint.External:
                   16 bytes or more that cannot be guessed (see: stint help answer)
  post_result      true lets others wait for the task, and keeps it for at least an hour
  on_abort         what to do when a task that this one waits for is aborted:
                   "abort-too" (the default) or "run-anyway"
  fail_fast        true aborts what only this task needs when this one is aborted
  after            a list of the IDs of tasks that this one waits for
  to_signal_after  a list of the IDs of tasks that wait for this one
  when             a list of conditions, which say how further tasks that this one waits for
                   must end: it starts when all are met, and is skipped as soon as one cannot
                   be met any more
  when_any         a list of conditions: the first that is met starts the task; excludes after
                   and when
`

// setField sets the field of that name. A null does the same as leaving the field out.
func setField(task *stint.Task, name string, value json.RawMessage) error {
	switch name {
	case "id":
		return readName(&task.ID, value, name, "to get a new one")
	case "action":
		return read(&task.Action, value, name, "a string")
	case "key":
		return readName(&task.Key, value, name, "for none")
	case "answer_key":
		return read((*string)(&task.AnswerKey), value, name, "a string")
	case "body":
		return readBody(&task.Body, value, name)
	case "body_base64":
		return readText(&task.Body, value, name, "a string in base64 (RFC 4648) with padding",
			base64.StdEncoding.Strict().DecodeString)
	case "headers":
		return readHeaderFields(&task.Headers, value, name)
	case "priority":
		return read(&task.Priority, value, name, "a whole number from -32768 to 32767")
	case "cost":
		return read(&task.Cost, value, name, "a whole number")
	case "max_tries":
		return read(&task.MaxTries, value, name, "a whole number")
	case "not_before":
		return readTime(&task.NotBefore, value, name)
	case "deadline":
		return readTime(&task.Deadline, value, name)
	case "post_result":
		return read(&task.PostResult, value, name, "true or false")
	case "fail_fast":
		return read(&task.FailFast, value, name, "true or false")
	case "on_abort":
		return readOnAbort(&task.OnAbort, value)
	case "after":
		return read(&task.After, value, name, "a list of IDs")
	case "to_signal_after":
		return read(&task.ToSignalAfter, value, name, "a list of IDs")
	case "when":
		return readConditions(&task.When, value, name)
	case "when_any":
		return readConditions(&task.WhenAny, value, name)
	}
	return fmt.Errorf("unknown field %q (see: stint help insert)", name)
}

// readConditions reads a list of objects with the fields of a condition.
func readConditions(into *[]stint.Condition, value json.RawMessage, name string) error {
	read, err := conditions.Read(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*into = read
	return nil
}

func readHeaderFields(into *map[string]string, value json.RawMessage, name string) error {
	var fields map[string]*string // a null would otherwise be an empty text
	if err := read(&fields, value, name, "an object of strings"); err != nil {
		return err
	}
	for header, text := range fields {
		if text == nil {
			return fmt.Errorf("%s: must be an object of strings, and %q is null", name, header)
		}
		if *into == nil {
			*into = map[string]string{}
		}
		(*into)[header] = *text
	}
	return nil
}

// readBody reads a string, or takes the text of any other JSON but null.
func readBody(into *[]byte, value json.RawMessage, name string) error {
	switch value[0] {
	case 'n': // null
		return nil
	case '"':
		text := ""
		err := read(&text, value, name, "a string")
		*into = []byte(text)
		return err
	}
	*into = value
	return nil
}

func readOnAbort(into *stint.OnAbort, value json.RawMessage) error {
	var text *string
	err := read(&text, value, "on_abort", "a string")
	switch {
	case err != nil || text == nil:
		return err
	case *text == display.AbortToo:
		*into = stint.AbortToo
	case *text == display.RunAnyway:
		*into = stint.RunAnyway
	default:
		return fmt.Errorf("on_abort: must be %q or %q", display.AbortToo, display.RunAnyway)
	}
	return nil
}
