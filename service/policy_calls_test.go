package service_test

// A call of a procedure: who may make it, and who may not.
type call struct{ by, request string }

// calls are, for each procedure, those that are allowed, whatever comes of them, and those that are
// refused.
var calls = map[string]struct{ allowed, refused []call }{
	"InsertTasks": {
		[]call{
			{"shop", `{"tasks":[{"id":"shop/1","action":"bill1"}]}`},
			{"shop", `{"tasks":[{"id":"shop/2","action":"mail","after":["shop/3"]},` +
				`{"id":"shop/3","action":"mail"}]}`},
			{"chain", `{"tasks":[{"id":"shop/4","action":"mail","after":["shop/mail"]}]}`},
			{"chain", `{"tasks":[{"id":"shop/5","action":"mail","when":[{"after":"shop/mail"}]}]}`},
			{"shop", `{"tasks":[{"id":"shop/6","action":"mail","when_any":[{"after":"shop/7"}]},` +
				`{"id":"shop/7","action":"mail"}]}`},
			{"root", `{"tasks":[{"action":"mail","fail_fast":true}]}`},
			{"chain", `{"tasks":[{"id":"shop/8","action":"mail","fail_fast":true,` +
				`"after":["shop/mail"]}]}`},
			{"spy", `{"tasks":[{"id":"1","action":"spy","after":["shop/mail"]}]}`},
		},
		[]call{
			{"spy", `{"tasks":[{"id":"2","action":"spy","fail_fast":true,` +
				`"after":["shop/mail"]}]}`},
			{"spy", `{"tasks":[{"id":"2","action":"spy","fail_fast":true}]}`},
			{"mailer", `{"tasks":[{"id":"shop/1","action":"mail"}]}`},
			{"shop", `{"tasks":[{"id":"other/1","action":"mail"}]}`},
			{"shop", `{"tasks":[{"action":"mail"}]}`},
			{"shop", `{"tasks":[{"id":"shop/1","action":"ship"}]}`},
			{"shop", `{"tasks":[{"id":"shop/1","action":"mail","after":["shop/mail"]}]}`},
			{"chain", `{"tasks":[{"id":"shop/1","action":"mail","after":["other/mail"]}]}`},
			{"shop", `{"tasks":[{"id":"shop/1","action":"mail","when":[{"after":"shop/mail"}]}]}`},
			{"chain", `{"tasks":[{"id":"shop/1","action":"mail",` +
				`"when_any":[{"after":"other/mail","results":["a"]}]}]}`},
			{"shop", `{"tasks":[{"id":"shop/1","action":"mail",` +
				`"to_signal_after":["other/mail"]}]}`},
			{"mailer", `{}`},
		},
	},
	"EnsureTasks": {
		[]call{
			{"shop", `{"tasks":[{"id":"shop/mail","action":"mail"},` +
				`{"id":"shop/e1","action":"bill1"}]}`},
			{"shop", `{"tasks":[{"id":"shop/e2","action":"mail","after":["shop/e3"]},` +
				`{"id":"shop/e3","action":"mail"}]}`},
			{"shop", `{"tasks":[` +
				`{"id":"shop/mail","action":"mail","to_signal_after":["shop/bills"]},` +
				`{"id":"shop/bills","action":"mail","after":["shop/mail"]}]}`},
			{"chain", `{"tasks":[{"id":"shop/mail","action":"mail"},` +
				`{"id":"shop/e4","action":"mail","after":["shop/mail"]},` +
				`{"id":"shop/e4","action":"mail","after":["shop/mail"]},` +
				`{"action":"mail","id":"shop/e5","to_signal_after":["shop/bills"]}]}`},
			{"root", `{"tasks":[{"action":"mail","after":["shop/mail"]},` +
				`{"id":"shop/mail","action":"x"}]}`},
		},
		[]call{
			{"mailer", `{"tasks":[{"id":"shop/1","action":"mail"}]}`},
			{"shop", `{"tasks":[{"id":"other/1","action":"mail"}]}`},
			{"shop", `{"tasks":[{"id":"shop/mail","action":"mail"},` +
				`{"id":"shop/1","action":"mail","after":["shop/mail"]}]}`},
			{"shop", `{"tasks":[{"id":"shop/mail","action":"mail","to_signal_after":["shop/1"]},` +
				`{"id":"shop/1","action":"mail"}]}`},
			{"chain", `{"tasks":[{"id":"shop/1","action":"mail","after":["other/mail"]}]}`},
			{"shop", `{"tasks":[{"id":"shop/mail","action":"mail"},` +
				`{"id":"shop/1","action":"mail","when_any":[{"after":"shop/mail"}]}]}`},
			{"mailer", `{}`},
		},
	},
	"ReplaceTasks": {
		[]call{{"shop", `{"tasks":[{"id":"shop/mail","action":"bill"}]}`}},
		[]call{
			{"shop", `{"tasks":[{"id":"shop/ship","action":"mail"}]}`},
			{"mailer", `{"tasks":[{"id":"shop/mail","action":"mail"}]}`},
		},
	},
	"Debounce": {
		[]call{
			{"shop", `{"task":{"id":"shop/mail","action":"bill"},"quiet":"1s","at_most":"1s"}`},
			{"shop", `{"task":{"id":"shop/9","action":"mail"},"quiet":"1s","at_most":"1s"}`},
		},
		[]call{
			{"shop", `{"task":{"id":"shop/ship","action":"mail"},"quiet":"1s","at_most":"1s"}`},
			{"shop", `{"task":{"id":"other/1","action":"mail"},"quiet":"1s","at_most":"1s"}`},
			{"shop", `{"task":{"id":"shop/9","action":"ship"},"quiet":"1s","at_most":"1s"}`},
			{"mailer", `{"task":{"id":"shop/mail","action":"mail"},"quiet":"1s","at_most":"1s"}`},
			{"mailer", `{}`},
		},
	},
	"AddDependencies": {
		[]call{
			{"chain", `{"dependencies":[{"predecessor":"shop/mail","dependent":"shop/bills"}]}`},
		},
		[]call{
			{"shop", `{"dependencies":[{"predecessor":"shop/mail","dependent":"shop/bills"}]}`},
			{"chain", `{"dependencies":[{"predecessor":"other/mail","dependent":"shop/bills"}]}`},
			{"chain", `{"dependencies":[{"predecessor":"shop/mail","dependent":"other/mail"}]}`},
			{"reader", `{"dependencies":[]}`},
		},
	},
	"AbortTasks": {
		[]call{{"shop", `{"ids":["shop/mail","shop/nobody"]}`}},
		[]call{{"shop", `{"ids":["other/mail"]}`}, {"reader", `{"ids":["shop/mail"]}`}},
	},
	"ChangeTasks": {
		[]call{{"shop", `{"ids":["shop/mail","shop/nobody"],"to":{"start_now":true}}`}},
		[]call{
			{"shop", `{"ids":["other/mail"],"to":{"start_now":true}}`},
			{"reader", `{"ids":["shop/mail"],"to":{"start_now":true},"dry_run":true}`},
		},
	},
	"AnswerTasks": {
		[]call{
			{"clerk", `{"actor":"clerk-1","answers":[{"id":"shop/ask","code":"completed"}]}`},
			{"root", `{"actor":"x","answers":[{"id":"other/ask","code":"aborted"}]}`},
			{"agent", `{"actor":"ann","answers":[{"id":"shop/ask","code":"completed"}]}`},
		},
		[]call{
			{"agent", `{"actor":"bob","answers":[{"id":"shop/ask","code":"completed"}]}`},
			{"agent", `{"actor":"ann","answers":[{"id":"other/ask","code":"completed"}]}`},
			{"clerk", `{"actor":"ann","answers":[{"id":"shop/ask","code":"completed"}]}`},
			{"clerk", `{"actor":"clerk-1","answers":[{"id":"other/ask","code":"completed"}]}`},
			{"shop", `{"actor":"clerk-1","answers":[{"id":"shop/ask","code":"completed"}]}`},
			{"mailer", `{"actor":"clerk-1"}`},
		},
	},
	"InsertShardTasks": {
		[]call{
			{"shop", `{"tasks":[{"shard":"1","task":{"id":"shop/1","action":"mail"}},` +
				`{"shard":"2","task":{"id":"shop/2","action":"mail"},` +
				`"after":[{"shard":"1","id":"shop/1"}]}]}`},
			{"root", `{"tasks":[{"shard":"1","task":{"id":"a","action":"b","after":["c"],` +
				`"to_signal_after":["d"]},"after":[{"shard":"2","id":"e"}]}]}`},
		},
		[]call{
			{"mailer", `{}`},
			{"spy", `{"tasks":[{"shard":"1","task":{"action":"spy","fail_fast":true}}]}`},
			{"shop", `{"tasks":[{"shard":"1","task":{"id":"other/1","action":"mail"}}]}`},
			{"shop", `{"tasks":[{"shard":"1","task":{"id":"shop/1","action":"ship"}}]}`},
			{"chain", `{"tasks":[{"shard":"1","task":{"id":"shop/1","action":"mail",` +
				`"after":["shop/mail"]}}]}`},
			{"chain", `{"tasks":[{"shard":"1","task":{"id":"shop/1","action":"mail"}},` +
				`{"shard":"2","task":{"id":"shop/2","action":"mail","after":["shop/1"]}}]}`},
			{"shop", `{"tasks":[{"shard":"1","task":{"id":"shop/1","action":"mail"},` +
				`"after":[{"shard":"2","id":"shop/mail"}]}]}`},
			{"shop", `{"tasks":[{"shard":"1","task":{"id":"shop/1","action":"mail"},` +
				`"when":[{"after":{"shard":"2","id":"shop/mail"}}]}]}`},
			{"shop", `{"tasks":[{"shard":"1","task":{"id":"shop/1","action":"mail",` +
				`"when_any":[{"after":"shop/mail"}]}}]}`},
			{"shop", `{"tasks":[{"shard":"1","task":{"id":"shop/1","action":"mail",` +
				`"to_signal_after":["shop/mail"]}}]}`},
		},
	},
	"GetShardTasks": {
		[]call{{"half", `{"tasks":[{"shard":"1","id":"shop/mail"}]}`}},
		[]call{
			{"half", `{"tasks":[{"shard":"1","id":"other/mail"}]}`},
			{"shop", `{"tasks":[{"shard":"1","id":"shop/mail"}]}`},
			{"mailer", `{}`},
		},
	},
	"RetryTasks": {
		[]call{{"shop", `{"ids":["shop/mail"]}`}},
		[]call{{"shop", `{"ids":["other/mail"]}`}, {"mailer", `{"ids":[]}`}},
	},
	"DeleteTasks": {
		[]call{{"shop", `{"ids":["shop/nobody"]}`}},
		[]call{{"shop", `{"ids":["other/mail"]}`}},
	},
	"Transact": {
		[]call{
			{"shop", `{"must_exist":["shop/mail"],"insert":[{"id":"shop/9","action":"mail"}],` +
				`"retry":["shop/nobody"]}`},
			{"mailer", `{"return":[{"id":"a","token":"` + nobodysToken + `","code":"completed"}]}`},
		},
		[]call{
			{"mailer", `{"must_exist":["shop/mail"]}`},
			{"shop", `{"must_exist":["other/mail"]}`},
			{"shop", `{"insert":[{"id":"x","action":"mail"}]}`},
			{"shop", `{"replace":[{"id":"shop/ship","action":"mail"}]}`},
			{"shop", `{"debounce":[{"task":{"id":"shop/8","action":"mail"}},` +
				`{"task":{"id":"shop/ship","action":"mail"}}]}`},
			{"chain", `{"depend":[{"predecessor":"other/mail","dependent":"shop/bills"}]}`},
			{"reader", `{"as_seen":{"tasks":[{"id":"other/mail"}]}}`},
			{"shop", `{"retry":["other/mail"]}`},
			{"shop", `{"abort":["other/mail"]}`},
			{"shop", `{"change":["other/mail"],"change_to":{"start_now":true}}`},
			{"shop", `{"delete":["other/mail"]}`},
			{"shop", `{"hold":[{"id":"a","token":"` + nobodysToken + `"}]}`},
			{"shop", `{"return":[{"id":"a","token":"` + nobodysToken + `","code":"completed"}]}`},
		},
	},
	"GetTasks": {
		[]call{{"shop", `{"ids":["shop/mail"]}`}, {"reader", `{"ids":["other/mail"]}`}},
		[]call{{"shop", `{"ids":["other/mail"]}`}, {"mailer", `{"ids":["shop/mail"]}`}},
	},
	"WaitForTasks": {
		[]call{{"shop", `{"ids":["shop/mail"],"wait":"0.001s"}`}},
		[]call{{"shop", `{"ids":["shop/mail","other/mail"],"wait":"0.001s"}`}},
	},
	"ListTasks": {
		[]call{
			{"shop", `{"actions":["mail","bill"],"id_prefix":"shop/m"}`},
			{"shop", `{"actions":["mail","bill"],"id_prefix":"shop/m","key":"k"}`},
			{"reader", `{}`},
			{"reader", `{"actions":["mail"]}`},
			{"reader", `{"actions":["mail"],"status":"gone"}`},
			{"root", `{}`},
			{"chain", `{"actions":["mail","bill"],"id_prefix":"shop/m","body":"$.n"}`},
			{"spy", `{"body":"$.n == 1"}`},
			{"root", `{"body":"$.n"}`},
		},
		[]call{
			{"shop", `{"actions":["mail","bill"],"id_prefix":"shop/m","body":"$.n"}`},
			{"chain", `{"actions":["mail","bill"],"body":"$.n"}`},
			{"reader", `{"body":"$.n"}`},
			{"reader", `{"actions":["mail"],"body":"bad"}`},
			{"spy", `{"actions":["mail","spy"],"body":"$.n"}`},
			{"mailer", `{"actions":["mail"],"body":"$.n"}`},
			{"shop", `{}`},
			{"shop", `{"key":"k"}`},
			{"shop", `{"id_prefix":"shop/"}`},
			{"shop", `{"actions":["mail"]}`},
			{"reader", `{"actions":["mail","ship"]}`},
			{"mailer", `{"actions":["mail"]}`},
		},
	},
	"ExplainTask": {
		[]call{{"shop", `{"id":"shop/bills"}`}},
		[]call{{"shop", `{"id":"other/mail"}`}, {"mailer", `{"id":"shop/mail"}`}},
	},
	"GetHistory": {
		[]call{{"shop", `{"id":"shop/bills"}`}},
		[]call{{"shop", `{"id":"other/mail"}`}, {"mailer", `{"id":"shop/mail"}`}},
	},
	"ListChanges": {
		[]call{
			{"shop", `{"id":"shop/bills"}`},
			{"shop", `{"id":"shop/gone"}`},
			{"reader", `{}`},
			{"root", `{"actions":["ship"]}`},
		},
		[]call{
			{"shop", `{"id":"other/mail"}`},
			{"mailer", `{"id":"shop/mail"}`},
			{"shop", `{}`},
			{"shop", `{"actions":["mail"]}`},
			{"reader", `{"actions":["mail","ship"]}`},
		},
	},
	"GetEnds": {
		[]call{
			{"reader", `{"wait":"0s"}`},
			{"reader", `{"actions":["mail"],"from":"now"}`},
			{"root", `{"actions":["ship"],"wait":"0s"}`},
		},
		[]call{
			{"shop", `{"wait":"0s"}`},
			{"shop", `{"actions":["mail"],"wait":"0s"}`},
			{"reader", `{"actions":["mail","ship"],"wait":"0s"}`},
		},
	},
	"GetGraph": {
		[]call{{"shop", `{"id":"shop/bills"}`}}, []call{{"shop", `{"id":"other/mail"}`}},
	},
	"GetStats": {[]call{{"reader", `{}`}}, []call{{"mailer", `{}`}}},
	"GetMinutes": {
		[]call{{"reader", `{"action":"mail"}`}},
		[]call{
			{"mailer", `{"action":"mail"}`},
			{"reader", `{}`},
			{"reader", `{"action":"ship"}`},
			{"shop", `{"action":"mail"}`},
		},
	},
	"ListProblems": {[]call{{"reader", `{"limit":1}`}}, []call{{"mailer", `{"limit":1}`}}},
	"ListActors":   {[]call{{"reader", `{}`}}, []call{{"mailer", `{}`}}},

	"SetLimits": {
		[]call{
			{"keeper", `{"action":"mail","limits":{"concurrency":3}}`},
			{"root", `{"action":"mail"}`},
		},
		[]call{
			{"shop", `{"action":"mail","limits":{"concurrency":3}}`},
			{"half", `{"action":"mail"}`},
			{"reader", `{"action":"mail"}`},
		},
	},
	"ListLimits": {[]call{{"reader", `{}`}}, []call{{"mailer", `{"actions":["mail"]}`}}},
	"Pause": {
		[]call{{"keeper", `{"actions":["mail"]}`}},
		[]call{{"shop", `{"actions":["mail"]}`}, {"mailer", `{}`}},
	},
	"Resume": {
		[]call{{"keeper", `{"actions":["mail"]}`}},
		[]call{{"shop", `{"actions":["mail"]}`}, {"reader", `{}`}},
	},
	"PauseKeys": {
		[]call{{"keeper", `{"action":"mail","keys":["a"]}`}},
		[]call{{"shop", `{"action":"mail","keys":["a"]}`}},
	},
	"PutSchedules": {
		[]call{
			{"shop", `{"schedules":[` + nightly + `,"tasks":[{"action":"mail"}]}]}`},
			{"shop", `{}`},
		},
		[]call{
			{"shop", `{"schedules":[` + nightly + `,"tasks":[{"action":"ship"}]}]}`},
			{"shop", `{"schedules":[{"name":"other","spec":"@daily",` +
				`"tasks":[{"action":"mail"}]}]}`},
			{"shop", `{"schedules":[` + nightly +
				`,"overlap":"wait","tasks":[{"action":"mail"}]}]}`},
			{"spy", `{"schedules":[` + nightly +
				`,"tasks":[{"action":"spy","fail_fast":true}]}]}`},
			{"reader", `{}`},
		},
	},
	"EnsureSchedules": {
		[]call{{"shop", `{"schedules":[` + nightly + `,"tasks":[{"action":"mail"}]}]}`}},
		[]call{
			{"shop", `{"schedules":[` + nightly + `,"tasks":[{"action":"mail"},` +
				`{"id":"2","action":"ship"}]}]}`},
			{"mailer", `{}`},
		},
	},
	"ListSchedules":   {[]call{{"reader", `{}`}}, []call{{"mailer", `{}`}}},
	"PauseSchedules":  {[]call{{"shop", `{}`}}, []call{{"reader", `{}`}, {"mailer", `{}`}}},
	"ResumeSchedules": {[]call{{"shop", `{}`}}, []call{{"reader", `{}`}}},
	"DeleteSchedules": {[]call{{"shop", `{}`}}, []call{{"reader", `{}`}}},
	"TriggerSchedule": {
		[]call{{"shop", `{"name":"none"}`}}, []call{{"reader", `{"name":"none"}`}},
	},
	"ResumeKeys": {
		[]call{{"keeper", `{"action":"mail","keys":["a"]}`}},
		[]call{{"shop", `{"action":"mail","keys":["a"]}`}},
	},
	"SetWeights": {
		[]call{{"keeper", `{"action":"mail","weights":[{"key":"a","weight":3}]}`}},
		[]call{{"shop", `{"action":"mail","weights":[{"key":"a","weight":3}]}`}},
	},
	"GetServiceInfo": {[]call{{"nobody", `{}`}}, nil},
	"PruneTasks": {
		[]call{{"keeper", `{"completed":"3600s"}`}, {"root", `{"dry_run":true}`}},
		[]call{{"half", `{"aborted":"0s"}`}, {"shop", `{}`}, {"reader", `{"dry_run":true}`}},
	},
	"CheckStore": {
		[]call{{"keeper", `{}`}, {"root", `{}`}},
		[]call{{"half", `{}`}, {"reader", `{}`}},
	},
	"OwnTasks": {
		[]call{{"mailer", `{"actor":"mailer-1","session":1,"claim":7,"max_tasks":1,` +
			`"actions":["mail"],"lease":"60s"}`}},
		[]call{
			{"mailer", `{"actor":"mailer-1","actions":["mail","bill"]}`},
			{"mailer", `{"actor":"other","actions":["mail"]}`},
			{"mailer", `{"actor":"other","actions":["mail"],"returns":[]}`},
			{"shop", `{"actor":"mailer-1","actions":["mail"]}`},
		},
	},
	"ReleaseClaim": {
		[]call{{"mailer", `{"actor":"mailer-1","claim":7}`}},
		[]call{{"mailer", `{"actor":"other","claim":7}`}, {"shop", `{"actor":"a","claim":7}`}},
	},
	"ExtendTasksOwnership": {
		[]call{{"mailer", `{"actor":"mailer-1","lease":"60s"}`}},
		[]call{{"mailer", `{"actor":"other","lease":"60s"}`}},
	},
	"ReturnTasks": {
		[]call{{"mailer", `{"returns":[]}`}}, []call{{"shop", `{"returns":[]}`}},
	},
	"SetStatus": {
		[]call{{"mailer", `{"id":"a","token":"` + nobodysToken + `"}`}},
		[]call{{"reader", `{"id":"a","token":"` + nobodysToken + `"}`}},
	},
	"DrawFence": {
		[]call{{"mailer", `{"id":"a","token":"` + nobodysToken + `"}`}},
		[]call{{"reader", `{"id":"a","token":"` + nobodysToken + `"}`}},
	},
	"GetInputs": {
		[]call{{"mailer", `{"id":"a","token":"` + nobodysToken + `"}`}},
		[]call{{"shop", `{"id":"a","token":"` + nobodysToken + `"}`}},
	},
	"RecordStep": {
		[]call{{"mailer", `{"id":"a","name":"step","token":"` + nobodysToken + `"}`}},
		[]call{{"reader", `{"id":"a","name":"step","token":"` + nobodysToken + `"}`}},
	},
	"ListSteps": {
		[]call{{"mailer", `{"id":"a","token":"` + nobodysToken + `"}`}},
		[]call{{"shop", `{"id":"a","token":"` + nobodysToken + `"}`}},
	},
}

// hiddenCalls name tasks that the caller must not learn of: for it, there are none.
var hiddenCalls = map[string][]call{
	"InsertTasks": {
		{"chain", `{"tasks":[{"id":"shop/1","action":"mail","after":["shop/ship"]}]}`},
		{"chain", `{"tasks":[{"id":"shop/1","action":"mail","to_signal_after":["shop/ship"]}]}`},
	},
	"EnsureTasks": {
		{"chain", `{"tasks":[{"id":"shop/1","action":"mail","after":["shop/ship"]}]}`},
		{"chain", `{"tasks":[{"id":"shop/1","action":"mail","to_signal_after":["shop/ship"]}]}`},
	},
	"AddDependencies": {
		{"chain", `{"dependencies":[{"predecessor":"shop/ship","dependent":"shop/bills"}]}`},
		{"chain", `{"dependencies":[{"predecessor":"shop/bills","dependent":"shop/ship"}]}`},
	},
	"AbortTasks":  {{"shop", `{"ids":["shop/mail","shop/ship"]}`}},
	"ChangeTasks": {{"shop", `{"ids":["shop/ship"],"to":{"start_now":true}}`}},
	"RetryTasks":  {{"shop", `{"ids":["shop/ship"]}`}},
	"DeleteTasks": {{"shop", `{"ids":["shop/ship"]}`}},
	"AnswerTasks": {
		{"clerk", `{"actor":"clerk-1","answers":[{"id":"shop/mail","code":"completed"}]}`},
	},
	"Transact": {
		{"shop", `{"must_exist":["shop/ship"]}`},
		{"shop", `{"retry":["shop/ship"]}`},
		{"shop", `{"change":["shop/ship"],"change_to":{"start_now":true}}`},
		{"shop", `{"abort":["shop/ship"]}`},
		{"shop", `{"delete":["shop/ship"]}`},
		{"chain", `{"depend":[{"predecessor":"shop/ship","dependent":"shop/bills"}]}`},
	},
	"GetTasks":     {{"shop", `{"ids":["shop/ship"]}`}, {"reader", `{"ids":["shop/ship"]}`}},
	"WaitForTasks": {{"shop", `{"ids":["shop/ship"],"wait":"0.001s"}`}},
	"ExplainTask":  {{"shop", `{"id":"shop/ship"}`}},
	"GetHistory":   {{"shop", `{"id":"shop/ship"}`}},
	"GetGraph":     {{"reader", `{"id":"shop/ship"}`}},
}
