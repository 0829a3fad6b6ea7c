package stint_test

// sample gives each statement arguments for EXPLAIN, and names the indexes it must go along. What
// runs without the planner settings of the others has none.
var sample = map[string]struct {
	args    string
	indexes []string
}{
	"attend_session": {"1, '1 s', true, '{a}', '{actor}', '{act}'", []string{"actors_pkey"}},
	"drop_session":   {"1", []string{"sessions_pkey", "actors_pkey", "actors_attendant"}},
	"attend_actor":   {"1, 'actor', 2, 3, '{act}'", []string{"actors_pkey"}},
	"dismiss_actor":  {"1, 'actor', 3", []string{"actors_pkey", "leases_session"}},
	"forget_actor":   {"1, 'actor', 3", []string{"actors_pkey"}},
	"claim_taken":    {"7", []string{"leases_pkey"}},
	"expire_session_leases": {"1, 'actor'", []string{
		"sessions_pkey", "leases_session", "actors_pkey",
	}},
	"list_unwatched":  {"10", []string{"leased_pkey", "sessions_pkey"}},
	"list_actors":     {"", []string{"leases_session", "leased_pkey", "sessions_pkey"}},
	"listen":          {"", nil},
	"lock_session":    {"1", nil},
	"check_sessions":  {"", nil},
	"commit_early":    {"", nil},
	"commit_late":     {"", nil},
	"wait_for_commit": {"", nil},
	"next_due": {"'{act}', 7, '{0}', '{9}', true, true", []string{
		"scheduled_order", "leases_order", "ready_order",
	}},
	"notify":          {"'stint', '{a}', '{b}', true, 0", nil},
	"notify_along":    {"'stint', '{a}', '{b}', 0", nil},
	"ping_session":    {"'stint', 'ping'", nil},
	"prepare_session": {"", nil},
	"still_owned":     {"'{5,70}', '{7,7}', false", []string{"leased_pkey", "ready_pkey"}},
	"read_bodies":     {"'{5,70}', 100", []string{"tasks_pkey"}},
	"waited_tasks":    {"'{5,70}', 100, '{9,9}'", []string{"finished_pkey", "tasks_pkey"}},
	"add_edges":       {"'{5,70}', '{6,71}', NULL, NULL", []string{"ready_pkey", "scheduled_pkey"}},
	"allocate_blocks": {"3", nil},
	"check_store":     {"10", nil},
	"check_parked":    {"10", nil},
	"split_ready":     {"'{5,70}'", []string{"ready_pkey"}},
	"split_leased":    {"'{5,70}', '{6,70}'", []string{"leased_pkey"}},
	"split_finished":  {"'{5,70}'", []string{"finished_pkey"}},
	"claimed_spans":   {"7", []string{"leases_pkey", "leased_pkey"}},
	"claimed_tasks":   {"7, 1000, 100, 10", []string{"leases_pkey", "leased_pkey", "tasks_pkey"}},
	"external_tasks": {"'{a,b}'", []string{
		"tasks_id_key", "ready_pkey", "finished_pkey", "answer_keys_pkey",
	}},
	"take_external":  {"'{5,70}', 7, 'actor'", []string{"ready_pkey"}},
	"bar_claim":      {"7, 'actor'", nil},
	"remember_claim": {"7, -1", []string{"leases_pkey"}},
	"count_ready":    {"10, 10, '{}'", []string{"ready_order", "tasks_pkey"}},
	"count_action":   {"'act', 10", []string{"ready_order"}},
	"count_tasks":    {"10, '{}'", []string{"tasks_pkey"}},
	"count_tries":    {"10", nil},
	"minute_due":     {"", []string{"minutes_pkey"}},
	"list_minutes":   {"'act'", []string{"minutes_pkey"}},
	"note_minute": {"'{act}', '{7}', '{1 s}', 10, 10, 10, 10", []string{
		"minutes_pkey", "finished_completed", "finished_aborted", "tasks_pkey",
		"action_stats_order",
	}},
	"count_lost": {"10", []string{"losses_ended", "tasks_pkey"}},
	"note_late": {"'{5,70}', '{7,7}', '{x,NULL}', '{3,NULL}'", []string{
		"finished_pkey", "tasks_pkey", "limits_pkey",
	}},
	"note_tries":   {"'{a,b}', '{1,2}', '{0,1}'", nil},
	"sample_tasks": {"10, '{0,1,2,3,10}', 10, 5", []string{"tasks_pkey"}},
	"list_problems": {"10", []string{
		"leased_pkey", "ready_tried", "scheduled_tried", "finished_failed", "losses_ended",
		"tasks_pkey",
	}},
	"list_errors": {"10, 10", []string{
		"ready_tried", "scheduled_tried", "finished_failed", "losses_ended", "tasks_pkey",
	}},
	"keep_ends":     {"'{5,70}'", []string{"finished_pkey"}},
	"try_keep_ends": {"", nil},
	"lock_ends":     {"", nil},
	"find_ended": {"'{5,70}'", []string{
		"finished_pkey", "edges_after", "tasks_pkey", "joined_pkey",
	}},
	"lock_finished":     {"'{5,70}'", []string{"finished_pkey"}},
	"edges_of":          {"'{5,70}'", []string{"edges_after", "edges_run"}},
	"cut_edges":         {"'{5,70}', '{6,71}'", []string{"edges_after"}},
	"take_back_signals": {"'{5,70}', '{1,1}', '{0,0}'", []string{"blocked_pkey"}},
	"reopen_tasks": {"'{5,70}', true, '{6}'", []string{
		"finished_pkey", "joined_pkey", "tasks_pkey", "losses_pkey", "slots_pkey",
	}},
	"drop_definitions": {"'{5,70}'", []string{
		"tasks_pkey", "deadlines_pkey", "steps_pkey", "answer_keys_pkey",
	}},
	"drop_answer_keys": {"0, 10", []string{"answer_keys_pkey", "tasks_pkey"}},
	"insert_fail_fast": {"'{5,70}'", nil},
	"lately_failed":    {"'10 s', 10", []string{"finished_aborted", "fail_fast_pkey"}},
	"find_failed":      {"0, 10", []string{"fail_fast_pkey", "tasks_pkey", "finished_pkey"}},
	"needed_tasks": {"5", []string{
		"edges_run", "edges_after", "finished_pkey", "tasks_pkey",
	}},
	"still_needed": {"'{5,70}', 7, now()", []string{
		"edges_after", "finished_pkey", "tasks_pkey",
	}},
	"hold_failed":  {"5, now()", []string{"fail_fast_pkey"}},
	"note_failed":  {"5, now(), true", []string{"fail_fast_pkey"}},
	"list_changes": {"now(), 7, 10, '{act}'", []string{"changes_order"}},
	"task_changes": {"'a', now(), 7, 10", []string{"changed_tasks_pkey", "changes_pkey"}},
	"drop_changes": {"'1 s', 10, 10", []string{
		"changes_order", "changed_tasks_number", "changes_pkey",
	}},
	"note_tasks":  {"7, 'a', 'b', 'c', 10, '{5,70}', 3", []string{"tasks_pkey", "leased_pkey"}},
	"note_others": {"7, 3", []string{"changes_pkey"}},
	"keep_response": {"'00000000-0000-0000-0000-000000000007', 'x'", []string{
		"calls_order", "calls_pkey",
	}},
	"inserted_lately": {"'id', 'act', 'x', ''", []string{"tasks_id"}},
	"find_response":   {"'00000000-0000-0000-0000-000000000007'", []string{"calls_pkey"}},
	"note_change":     {"7, 'a', 'b', 'c', 3, '{a}', 'd'", nil},
	"note_pauses":     {"7, 'a', 'b', 'c', '{act}', true", nil},
	"note_key_pauses": {"7, 'a', 'b', 'c', 10, 'act', '{k}', true", []string{
		"limited_keys_pkey",
	}},
	"note_weights": {"7, 'a', 'b', 'c', 10, 'act', '{k}', '{3}'", []string{"limited_keys_pkey"}},
	"note_limits": {
		"7, 'a', 'b', 'c', 'act', 1, 2, 3, '1 s', 4, 5, '1 s', 6, true, false, 'g', " +
			"false", nil,
	},
	"drop_tries": {"0, 10, 3, '1 s'", []string{"tries_key", "tasks_pkey"}},
	"list_tries": {"'a'", []string{"tasks_id_key", "tries_key", "finished_pkey"}},
	"remember_tries": {
		"'{5,70}', '{5,70}', '{7,7}', '{t,f}', '{2,3}', '{f,f}', '{x,y}', '{x,y}', true, true",
		[]string{"leased_pkey", "leases_pkey", "edges_after"},
	},
	"drop_steps":         {"0, 10", []string{"steps_pkey", "tasks_pkey"}},
	"insert_answer_keys": {"'{5,70}', '{x,y}'", nil},
	"explain_steps":      {"'a'", []string{"tasks_id_key", "steps_pkey"}},
	"list_steps":         {"'{5,70}'", []string{"steps_pkey"}},
	"record_step": {
		"'{5,70}', '{7,7}', '{a,b}', '{x,y}', 10, 100", []string{"leased_pkey", "steps_pkey"},
	},
	"edges_ahead": {"'{5,70}'", []string{"edges_after", "blocked_pkey"}},
	"end_due_tasks": {"1, 2, '{5,70}', 3", []string{
		"ready_pkey", "scheduled_pkey", "leased_pkey", "leases_pkey", "blocked_pkey", "tasks_pkey",
		"losses_pkey",
	}},
	"explain_asked": {"'a', 'ready '", []string{
		"tasks_id_key", "leased_pkey", "leases_pkey", "action_stats_pkey",
	}},
	"explain_limits": {"'a', 10, 10", []string{
		"tasks_id_key", "ready_pkey", "limits_pkey", "limited_keys_pkey", "leased_limited",
		"slots_pkey", "leased_pkey", "key_rates_pkey", "ready_parked", "turns_pkey", "turns_order",
	}},
	"explain_start": {"'a', 10, 30", []string{
		"tasks_id_key", "ready_pkey", "scheduled_pkey", "ready_order", "ready_parked",
		"limited_keys_pkey", "action_stats_pkey", "minutes_pkey",
	}},
	"explain_task": {"'a', 10", []string{
		"tasks_id_key", "edges_run", "blocked_pkey", "finished_pkey", "slots_pkey",
		"leased_pkey", "ready_pkey",
	}},
	"forget_asked":      {"", []string{"action_stats_order"}},
	"forget_minutes":    {"", []string{"minutes_pkey"}},
	"drop_losses":       {"0, 10", []string{"losses_pkey", "tasks_pkey"}},
	"forget_unattended": {"", []string{"actors_attendant"}},
	"spend_claim":       {"7, 'actor', true", nil},
	"claim_spent":       {"7", []string{"leases_pkey"}},
	"graph_tasks":       {"'a', 10", []string{"tasks_id_key", "edges_after", "edges_run"}},
	"note_asked":        {"'{a,b}'", nil},
	"scan_task_deadlines": {"10, '-infinity', 0", []string{
		"deadlines_pkey", "ready_pkey", "scheduled_pkey", "leased_pkey", "blocked_pkey",
	}},
	"end_tasks": {"1, 2, 4, 'x', '{5}', '{1}', '{actor}'", nil},
	"erase_tasks": {"'{5,70}'", []string{
		"finished_pkey", "edges_after", "edges_run", "joined_pkey", "tasks_pkey",
	}},
	"hand_over": {"'{5,70}', '{a,b}'", []string{
		"tasks_id_key", "edges_after", "blocked_pkey",
	}},
	"existing_edges": {"'{5,70}', '{6,71}'", []string{"edges_after"}},
	"existing_tasks": {"'{a,b}'", []string{"tasks_id_key"}},
	"extend_leases": {"'{5,70}', '{6,70}', '{7,7}', 'actor', '1 h', NULL", []string{
		"leased_pkey", "leases_pkey",
	}},
	"get_tasks": {"'{a,b}'", []string{
		"tasks_id_key", "finished_pkey", "leased_pkey", "leases_pkey", "ready_pkey",
		"scheduled_pkey", "blocked_pkey", "edges_run",
	}},
	"small_tasks": {"'{a,b}', 100", []string{
		"tasks_id_key", "finished_pkey", "leased_pkey", "leases_pkey", "ready_pkey",
		"scheduled_pkey", "blocked_pkey", "edges_run",
	}},
	"hold_ownership": {"'{5,70}', '{7,7}'", []string{"leased_pkey"}},
	"lock_states": {"'{5,70}', '{6,71}', '{70}'", []string{
		"ready_pkey", "scheduled_pkey", "leased_pkey", "blocked_pkey", "finished_pkey",
	}},
	"task_bytes": {"'{a,b}'", []string{
		"tasks_id_key", "finished_pkey", "leased_pkey", "leases_pkey", "ready_pkey",
		"scheduled_pkey", "blocked_pkey",
	}},
	"inputs": {"5, 0, 1000", []string{
		"edges_run", "tasks_pkey", "finished_pkey",
	}},
	"insert_network": {
		"1, 2, '{5}', '{1}', '{NULL}', '{5}', '{6}', '{5}', '{1}', '{1}', '{0}', '{f}', '{0}', " +
			"NULL, NULL", nil,
	},
	"take_signals": {"1, 2, '{5}', 0", []string{
		"tasks_pkey", "edges_run", "finished_pkey", "joined_pkey",
	}},
	"insert_task": {"'a', 'act', 'x', 0, 0, NULL, 0, false, 5, 'k', '{}', 2", nil},
	"insert_debounced": {
		"now(), 9, now() + '1 h', false, 'a', 'act', 'b', 0, 5, now() + '2 h', 0, false, 7, " +
			"'key', '{}', 2", nil,
	},
	"first_calls":    {"'{a,b}'", []string{"tasks_id_key"}},
	"lock_debounced": {"'a'", nil},
	"hold_follow_up": {"'a', 'b'", []string{
		"tasks_id_key", "leased_pkey", "edges_after", "blocked_pkey",
	}},
	"renew_blocked": {"7, now()", []string{"blocked_pkey", "fail_fast_pkey", "tries_key"}},
	"insert_tasks": {
		"'{a}', '{act}', '{x}', '{0}', '{0}', '{NULL}', '{NULL}', '{0}', '{f}', '{5}', '{f}', " +
			"'{k}', '{NULL}', '{2}'", nil,
	},
	"insert_separately": {
		"'{a}', '{act}', '{x}', '{0}', '{0}', '{NULL}', '{0}', '{f}', '{5}', '{k}', " +
			"'{NULL}', '{2}'", nil,
	},
	"explain_refusals": {"'{5,70}', '{7,7}', '{a,b}'", []string{
		"tasks_id_key", "finished_pkey", "ready_pkey", "scheduled_pkey",
	}},
	"keep_planner": {"", nil},
	"keep_texts":   {"", nil},
	"copy_tables":  {"", nil},
	"copy_tasks": {"'{task5}', 3", []string{
		"tasks_id_key", "tasks_pkey", "edges_after", "edges_run", "finished_pkey", "ready_pkey",
		"leased_pkey", "leases_pkey", "blocked_pkey", "scheduled_pkey", "joined_pkey",
		"fail_fast_pkey",
	}},
	"copies_changed": {"", nil},
	"list_tasks": {"'{5,70}', NULL, NULL, NULL, NULL, NULL, NULL, 'k', '{}', 'x', 10", []string{
		"tasks_pkey", "finished_pkey", "leased_pkey", "ready_pkey",
	}},
	"list_bodies":    {"'{5,70}', 1000", []string{"tasks_pkey"}},
	"list_ids":       {"'', NULL, '', 10", []string{"tasks_id_key"}},
	"list_newest":    {"5, 10", []string{"tasks_pkey"}},
	"list_blocked":   {"5, 10", []string{"blocked_pkey"}},
	"list_scheduled": {"'-infinity', 5, 10", []string{"scheduled_order"}},
	"list_ready":     {"5, 10", []string{"ready_pkey"}},
	"list_leased":    {"5, 10", []string{"leased_pkey"}},
	"list_queue":     {"'act', 5, 5, 10", []string{"ready_order"}},
	"list_owned":     {"'actor', 5, 10", []string{"leased_pkey"}},
	"list_finished": {"'completed', 'infinity', 5, 10", []string{
		"finished_completed", "finished_aborted",
	}},
	"list_ends": {"'-infinity', 5, '{act}', 'infinity', 10, 10, 10", []string{
		"finished_completed", "finished_aborted", "tasks_pkey",
	}},
	"note_pruned":     {"'-infinity'", nil},
	"limit_idling":    {"", nil},
	"limit_waiting":   {"", nil},
	"limited_actions": {"10", nil},
	"gather_signals":  {"'{1,2}', 3, 1", []string{"settling_pkey"}},
	"give_slots": {"'{act}', 5, 10, 10", []string{
		"leased_pkey", "tasks_pkey", "slots_pkey",
	}},
	"lock_dependents": {"1, 2", []string{
		"settling_pkey", "edges_after", "tasks_pkey", "blocked_pkey",
	}},
	"forget_keys":       {"'act', '{a,b}'", []string{"limited_keys_pkey"}},
	"forget_limits":     {"'{act,other}'", []string{"limits_pkey", "limited_keys_pkey"}},
	"leased_writers":    {"NULL", nil},
	"capacity_writers":  {"NULL", nil},
	"list_limited_keys": {"NULL, 10", []string{"limited_keys_pkey"}},
	"limits_now":        {"'act'", []string{"limits_pkey"}},
	"list_limits":       {"NULL, 10", []string{"leased_limited", "ready_parked"}},
	"lock_limiting":     {"", nil},
	"lower_supported":   {"", []string{"limits_pkey"}},
	"mark_leased":       {"'{act}', 5, 10", []string{"leased_pkey", "tasks_pkey"}},
	"older_sessions":    {"", nil},
	"pause_actions":     {"'{act,other}'", nil},
	"pause_keys":        {"'act', '{a,b}'", nil},
	"raise_supported":   {"", nil},
	"resume_actions":    {"'{act,other}'", []string{"limits_pkey"}},
	"resume_keys":       {"'act', '{a,b}'", []string{"limited_keys_pkey"}},
	"set_limits": {
		"'act', 40, 1, 1000, '1 s', 1000, 5, '1 min', 1, true, false, 'g', true", nil,
	},
	"set_weights": {"'act', '{a,b}', '{2,3}'", nil},

	"advance_schedule":   {"'s', now(), now(), '{a}', 1, 2", []string{"schedules_pkey"}},
	"delete_schedules":   {"'{s,t}'", []string{"schedules_pkey"}},
	"due_schedule":       {"'-infinity', '', '{a}'", []string{"schedules_order"}},
	"ensure_schedules":   {schedulesSample, nil},
	"find_schedules":     {"'{s,t}'", []string{"schedules_pkey"}},
	"list_schedules":     {"'s', 10", []string{"schedules_pkey"}},
	"lock_schedules":     {"'{s,t}'", []string{"schedules_pkey"}},
	"now":                {"", nil},
	"pause_schedules":    {"'{s,t}'", []string{"schedules_pkey"}},
	"put_schedules":      {schedulesSample, nil},
	"resume_schedules":   {"'{s,t}', '{NULL,NULL}'", []string{"schedules_pkey"}},
	"schedule_bytes":     {"'{s,t}', true", []string{"schedules_pkey"}},
	"schedule_overdue":   {"", []string{"schedules_order"}},
	"reckoned_schedules": {"'s', 10", []string{"schedules_pkey"}},
	"mend_schedule":      {"'s', NULL, '2999-01-01'", []string{"schedules_pkey"}},
	"mend_leases":        {"10", []string{"leases_order"}},
	"mend_finished":      {"10", []string{"finished_completed", "finished_aborted"}},
	"find_room": {"'act', 5, 5, 10", []string{
		"ready_order", "tasks_pkey", "slots_pkey", "leased_pkey", "limited_keys_pkey",
		"key_rates_pkey", "ready_parked", "finished_pkey", "limits_pkey",
	}},
	"mend_asked": {"10", []string{"action_stats_order"}},
	"look_for_work": {"'stint', '', '', true, 1", []string{
		"scheduled_order", "leases_order", "deadlines_pkey", "schedules_order", "fail_fast_pkey",
		"finished_aborted", "ready_parked", "slots_pkey", "key_rates_pkey", "ready_order",
	}},
	"tell":           {"'stint', 'did a due'", nil},
	"wanted_actions": {"'act', 10, 'ready '", []string{"ready_order"}},
	"ready_actions": {"'{act}', '{0}', '{9}'", []string{
		"limits_pkey", "leased_limited", "ready_order", "turns_order", "key_rates_wake",
	}},
	"unfinished_tasks": {"'{a,b}'", []string{"tasks_id_key", "finished_pkey", "edges_after"}},

	"unpark_tasks":      {"'act', NULL, '', 5, 5, 10", []string{"ready_parked", "ready_pkey"}},
	"lock_leases":       {"'{7,8}'", []string{"leases_pkey"}},
	"lock_predecessors": {"'{5,70}'", []string{"edges_run", "leased_pkey", "blocked_pkey"}},
	"waiting_tasks":     {"'{5,70}'", []string{"edges_run"}},
	"lock_dependencies": {"", []string{"dependency_lock_pkey"}},
	"owned_task":        {"5, 7", []string{"leased_pkey"}},
	"own_few": {
		"7, 'actor', 10, '{act,other}', '1 h', NULL, '{0,0}', '{9,9}', false, false, " +
			"1000, 100, 10",
		[]string{"ready_order", "ready_pkey", "tasks_pkey", "edges_after"},
	},
	"own_singly": {
		"7, 'actor', 10, '{act,other}', '1 h', NULL, '{0,0}', '{9,9}', false, false, " +
			"1000, 100, 10",
		[]string{"ready_order", "ready_pkey", "tasks_pkey", "edges_after"},
	},
	"own_tasks": {
		"7, 'actor', 10, '{a,act,other}', '1 h', NULL, '{0,0,0}', '{9,9,9}', false, true, " +
			"1000, 100, 10",
		[]string{
			"leases_pkey", "limits_pkey", "ready_order", "ready_pkey", "tasks_pkey", "edges_after",
		},
	},
	"own_limited": {
		"7, 'actor', 10, '{a,act,other}', '1 h', NULL, '{0,0,0}', '{9,9,9}', true, 1, 64",
		[]string{
			"leases_pkey", "ready_order", "ready_pkey", "tasks_pkey", "edges_after", "limits_pkey",
			"limited_keys_pkey", "slots_pkey", "leased_pkey", "leased_limited", "key_rates_pkey",
			"finished_pkey",
		},
	},
	"own_gated": {
		"7, 'actor', 10, '{a,act,other}', '1 h', NULL, '{0,0,0}', '{9,9,9}', true, 1",
		[]string{
			"leases_pkey", "ready_order", "ready_pkey", "edges_after", "limits_pkey",
			"limited_keys_pkey", "leased_limited",
		},
	},
	"own_at_once": {
		"7, 'actor', 10, '{a,act,other}', '1 h', NULL, '{0,0,0}', '{9,9,9}', true",
		[]string{
			"leases_pkey", "ready_order", "ready_pkey", "edges_after", "limits_pkey",
			"limited_keys_pkey", "leased_limited", "turns_order",
		},
	},
	"note_limited": {"'{5,70}', '{6,70}', '{7,7}'", []string{
		"leased_pkey", "limits_pkey", "limited_keys_pkey",
	}},
	"lock_limits": {"'{a,act}'", []string{"limits_pkey"}},
	"lock_shared": {"'{a,act}'", []string{"limits_pkey", "limits_groups"}},
	"next_limited": {"'{a,act}', 10, '{0,0}', '{9,9}'", []string{
		"limits_pkey", "leased_limited", "ready_order", "key_rates_wake",
	}},
	"unpark_within_limits": {`'{5,70}', '{6,70}', '{7,7}', '{act,act}', '{k,l}',
		'{act}', true, '{0,2}'`, []string{
		"finished_pkey", "leased_pkey", "tasks_pkey", "limits_pkey", "slots_pkey", "ready_parked",
		"limited_keys_pkey", "key_rates_wake", "key_rates_pkey", "turns_order", "ready_order",
	}},
	"queue_turns": {"'{act,a}'", []string{
		"limits_pkey", "ready_order", "ready_pkey", "tasks_pkey", "turns_order",
	}},
	"deal_turns": {"'{act,a}', 10, false", []string{
		"limits_pkey", "ready_order", "turns_order", "limited_keys_pkey",
		"ready_parked", "slots_pkey", "leased_pkey", "key_rates_pkey",
	}},
	"queue_shared": {"'{act,a}'", []string{
		"limits_pkey", "ready_order", "ready_pkey", "tasks_pkey", "turns_order", "turns_pkey",
	}},
	"deal_shared": {"'{act,a}', 10, false", []string{
		"limits_pkey", "limits_groups", "ready_order", "turns_order", "turns_pkey",
		"limited_keys_pkey", "ready_parked", "slots_pkey", "leased_pkey", "key_rates_pkey",
		"leased_limited",
	}},
	"join_group": {"'act', 'g'", []string{"limits_pkey", "turns_pkey", "turns_order"}},
	"charge_costs": {"7", []string{
		"leases_pkey", "tasks_pkey", "limits_pkey", "limits_groups", "limited_keys_pkey",
		"key_rates_pkey", "turns_pkey",
	}},
	"settle_spent": {"'act'", []string{
		"spent_pkey", "limits_pkey", "limits_groups", "limited_keys_pkey", "turns_pkey",
	}},
	"note_spent": {"'{5,70}', '{5,70}', '{7,7}', '{3,NULL}'", []string{
		"leased_pkey", "tasks_pkey", "limits_pkey",
	}},
	"forget_spent":    {"'act'", []string{"spent_pkey", "limits_pkey"}},
	"forget_turns":    {"'act'", []string{"turns_order", "limits_pkey"}},
	"fit_key_rates":   {"'act', false", []string{"key_rates_pkey", "limits_pkey"}},
	"sweep_key_rates": {"'act', 'k', 10", []string{"key_rates_pkey", "limits_pkey"}},
	"parked_keys": {"'act', 'k', 10", []string{
		"ready_parked", "limits_pkey", "limited_keys_pkey",
	}},
	"drop_slots": {"'act', 'k', 1, 10", []string{
		"slots_pkey", "leased_pkey", "limits_pkey", "tasks_pkey", "finished_pkey",
	}},
	"promote_scheduled": {"10, '-infinity', 0", []string{
		"scheduled_order", "scheduled_pkey", "tasks_pkey",
	}},
	"prune_finished": {
		"false, '-infinity', 0, '1 h', 10, 10, '{5,70}', '1 h', '1 h', '1 h'",
		[]string{
			"finished_completed", "finished_aborted", "finished_pkey", "tasks_pkey", "edges_after",
			"edges_run", "joined_pkey",
		},
	},
	"note_pruning":   {"'1 h'", nil},
	"forget_pruning": {"", nil},
	"pruning_behind": {"", nil},
	"reclaim_leases": {"10, '-infinity', 1000, true, 3", []string{
		"leases_order", "leased_pkey", "tasks_pkey", "losses_pkey",
	}},
	"restore_planner": {"", nil},
	"return_tasks": {
		"'{5}', '{5}', '{7}', '{0}', '{f}', '{NULL}', '{NULL}', true, '{NULL}', true, true, 1, 2",
		[]string{"leased_pkey", "tasks_pkey", "leases_pkey", "edges_after", "edges_run"},
	},
	"return_final": {
		"'{5}', '{5}', '{7}', '{0}', '{f}', '{NULL}', '{NULL}', true",
		[]string{"leased_pkey", "leases_pkey", "edges_after"},
	},
	"read_texts":    {"", nil},
	"restore_texts": {"", nil},
	"return_large": {
		"'{5}', '{5}', '{7}', '{0}', '{f}', '{NULL}', '{NULL}', true, '{NULL}', true, true, " +
			"1, 2, '{1}', '{1}', 'x'",
		[]string{"leased_pkey", "tasks_pkey", "leases_pkey", "edges_after", "edges_run"},
	},
	"revive_tasks": {"'{5,70}', '{7,7}', NULL, NULL, false", []string{
		"ready_pkey", "leases_pkey", "losses_pkey",
	}},
	"schema_version":  {"'stint'", nil},
	"read_origin":     {"", nil},
	"write_origin":    {"NULL", nil},
	"forget_origin":   {"", nil},
	"session_process": {"", nil},
	"set_path":        {"", nil},
	"set_planner":     {"", nil},
	"set_status":      {"5, 7, 'x', 0.5", []string{"leased_pkey"}},
	"draw_fence":      {"5, 7", []string{"leased_pkey"}},
	"settle_tasks": {"1, 2, NULL", []string{
		"settling_pkey", "tasks_pkey", "edges_after", "edges_run", "blocked_pkey", "deadlines_pkey",
	}},
	"sweep_leases":     {"10", []string{"leases_order", "leased_pkey", "leases_pkey"}},
	"splittable_tasks": {"'{a,b}'", []string{"tasks_id_key", "leased_pkey"}},
	"plan_for_all":     {"", nil},
	"task_ids":         {"'{5,70}'", []string{"tasks_pkey"}},
	"task_keys":        {"'{a,b}'", []string{"tasks_id_key"}},
	"unsettled_edges":  {"", nil},
	"change_tasks": {"'{5,70}', true, '2999-01-01', NULL, 1, true, 'k', 3", []string{
		"ready_pkey", "scheduled_pkey", "blocked_pkey", "tasks_pkey", "leased_pkey",
		"finished_pkey",
	}},
	"split_changing": {"'{5,70}', true, '2999-01-01', NULL, 1, true, 'k', 3", []string{
		"ready_pkey", "tasks_pkey",
	}},
	"withdraw_tasks": {"'{5,70}', false, true", []string{
		"ready_pkey", "scheduled_pkey", "leased_pkey", "leases_pkey", "finished_pkey",
		"blocked_pkey",
	}},
}

// schedulesSample are the arguments of the statements that put schedules.
const schedulesSample = "'{s}', '{@daily}', '{UTC}', '{NULL}', '{NULL}', '{a}', '{NULL}'"
