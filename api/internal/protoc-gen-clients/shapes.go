package main

import "slices"

// A shape is a type of the clients: the message that it stands for, and where it is otherwise.
type shape struct {
	message string
	name    string // in the clients, if it is another one

	given    bool // calls take it; what is not required may be left out then
	answered bool // calls return it

	required int      // so many of its first fields have no default
	first    []string // the first fields in Python, if they are others than those of the message
	without  []string // fields that the clients do not have
	nullable []string // messages that an answer may lack
	secret   []string // fields that repr leaves out

	frozen bool   // in Python it never changes
	pyDoc  string // a further sentence of the comment in Python
	method string // what else the class has
	then   string // what else its to_ does with found

	tsOnly  bool   // Python has its fields as arguments
	inner   bool   // it is no part of the API
	tsDoc   string // a further sentence of the comment in TypeScript
	base    string // the interface that it extends
	part    string // its own fields are an interface of this name
	partDoc string // the comment of that
	finish  string // what completes its message

	doc    string
	fields []field
}

// forPeople returns the names of texts in which what is no Unicode is replaced.
func forPeople() []string { return []string{"status", "log", "abort_status"} }

// shapes returns the types, each behind those that it has.
func shapes() []*shape {
	given, answered := givenShapes(), answeredShapes()
	for _, s := range given {
		s.given = true
	}
	for _, s := range answered {
		s.answered = true
	}
	all := slices.Concat([]*shape{{message: "Performance", tsOnly: true}}, given, answered)
	for _, s := range all {
		if s.name == "" {
			s.name = s.message
		}
	}
	return all
}

func givenShapes() []*shape {
	return []*shape{
		{message: "Condition", answered: true, required: 1, without: []string{"result_bytes"}},
		{
			message: "Task", answered: true, required: 1,
			first: []string{"action", "body"}, secret: []string{"answer_key"}, finish: "withID",
			pyDoc: "A naive time is refused: say which zone is meant.",
			method: `    def __post_init__(self) -> None:
        self.id = self.id or RandomID(uuid.uuid4())
`,
			then: `found.id = m.get("id", "")  # not a random one`,
		},
		{message: "DebounceRequest", name: "Debounced", required: 3},
		{
			message: "Return", required: 2, secret: []string{"token", "result", "log"},
			base: "Performance", part: "Outcome", partDoc: "How a performance ends.",
			finish: "completed", tsDoc: "returnOf makes it from an owned task.",
			method: `    @classmethod
    def of(cls, task: OwnedTask, code: str = "completed", **other: Any) -> Return:
        """Returns the return of an owned task."""
        return cls(task.id, task.token, code, **other)
`,
		},
		{message: "Answer", required: 1, secret: []string{"result", "key"}, finish: "completed"},
		{message: "Dependency", answered: true, required: 2, frozen: true},
		{
			message: "TaskChanges", tsOnly: true,
			first: []string{"not_before", "start_after", "start_now", "max_tries"},
		},
		{
			message: "TransactRequest", name: "Transaction", tsOnly: true,
			first:   []string{"hold", "must_exist", "insert", "replace", "debounce"},
			without: []string{"repeated", "as_seen", "change", "change_to"},
		},
		{message: "Rate", answered: true, required: 2, frozen: true},
		{message: "Limits", answered: true},
		{
			message: "Schedule", answered: true, required: 3,
			first: []string{"name", "spec", "tasks"},
		},
		{
			message: "ListTasksRequest", name: "Filter", tsOnly: true, without: []string{"after"},
			first: []string{
				"actions", "states", "id_prefix", "actor", "min_age", "max_age", "newest_first",
				"key", "headers", "body", "status",
			},
		},
	}
}

func answeredShapes() []*shape {
	return []*shape{
		{message: "TaskInfo", required: 2},
		{
			message: "OwnedTask", required: 2, base: "Performance",
			secret: []string{"token", "body"},
			tsDoc: "So token is not enumerable: neither console.log nor JSON.stringify shows it, " +
				"and {...task} lacks it.",
		},
		{message: "Affected", frozen: true},
		{message: "EnsureTasksResponse", name: "Ensured"},
		{message: "TransactResponse", name: "Transacted", without: []string{"changed"}},
		{message: "Input", required: 1},
		{message: "ActionLimits", required: 1},
		{
			message: "TaskLimits",
			first:   []string{"limits", "paused_since", "key_paused_since", "in_progress", "owned"},
		},
		{message: "StepInfo", required: 1, frozen: true},
		{message: "RecordedStep", name: "Recorded", tsOnly: true, inner: true},
		{message: "Start", frozen: true},
		{
			message: "ExplainTaskResponse", name: "Explanation", required: 1,
			nullable: []string{"limits", "start"},
		},
		{message: "Try", required: 3, frozen: true},
		{message: "GetHistoryResponse", name: "History", frozen: true},
		{message: "EdgeCondition", required: 2},
		{message: "GetGraphResponse", name: "Graph"},
		{message: "ActionStats", required: 1},
		{
			message: "GetStatsResponse", name: "Stats",
			first: []string{"actions", "estimated", "estimated_at"},
		},
		{message: "Minute", required: 2, frozen: true},
		{message: "ErrorGroup", required: 4, frozen: true},
		{message: "ListProblemsResponse", name: "Problems"},
		{message: "GetEndsResponse", name: "EndPage"},
		{message: "ActorInfo", required: 1},
		{message: "ScheduleInfo", required: 1},
	}
}

// specials returns the fields that are otherwise than their messages say, or stand for another one.
func specials() map[string][]field {
	some := "Union[Condition, Sequence[Condition]]"
	return map[string][]field{
		"Condition.states": {{pyType: "Union[str, Sequence[str]]", tsType: "Some<Ended>"}},
		"Condition.results": {{
			pyType: "Union[Content, Sequence[Content]]", pyFrom: "**from_results(given.results)",
			pyTo: "to_results(m)", tsType: "Content | Iterable<Content>", tsField: "f.results",
			doc: "The results of which a completed task must have one, byte by byte: at most " +
				"32 of 255 bytes each. Default: any result. Conditions that come from the " +
				"service have them as bytes.",
		}},
		"Task.id": {{
			doc: "1 to 512 bytes of UTF-8. Default: a random one, which the client makes.",
		}},
		"Task.on_abort": {{tsType: `"" | "abort-too" | "run-anyway"`}},
		"Task.when":     {{pyType: some}},
		"Task.when_any": {{pyType: some}},
		"Return.code": {{
			pyDefault: `"completed"`, tsType: `"completed" | "aborted" | "pending"`,
			doc: `"completed", the default, "aborted", or "pending" for another try.`,
		}},
		"Answer.code": {{
			pyDefault: `"completed"`, tsType: "Ended",
			doc: `"completed", the default, "aborted" or "skipped".`,
		}},
		"TaskChanges.start_after": {{tsType: "Duration"}},
		"TransactRequest.hold":    {{tsType: "Some<Performance>", tsField: "f.performances"}},
		"ListTasksRequest.limit": {{
			tsType: "number | null", doc: "How many at most. Default: all.",
		}},
		"ActionLimits.keys": {
			{
				name: "paused_keys", doc: "Since when keys are paused; not all if keys_or_more.",
				pyType: "Mapping[str, datetime]", pyDefault: "field(default_factory=dict)",
				pyTo: "to_paused_keys(m)", tsType: "Map<string, Date>", tsField: "f.pausedKeys",
			},
			{
				name: "weights", doc: "Those other than 1; not all if keys_or_more.",
				pyType: "Mapping[str, int]", pyDefault: "field(default_factory=dict)",
				pyTo: "to_weights(m)", tsType: "Map<string, number>", tsField: "f.weights",
			},
		},
		"Schedule.tasks": {{
			pyFrom:  "to_be_named(several(from_task, given.tasks, Task))",
			tsField: "f.many(taskFields)",
		}},
		"Schedule.catch_up":     {{tsType: `"" | "last" | "skip" | "all"`}},
		"Schedule.overlap":      {{tsType: `"" | "allow" | "skip" | "wait" | "abort"`}},
		"ScheduleInfo.schedule": {{tsType: "Schedule & { tasks: Task[] }"}},
	}
}
