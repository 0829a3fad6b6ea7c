package ui

import (
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/names"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/ui/internal/show"
)

type actionData struct {
	Partly  bool // as in [request]
	Name    string
	Known   bool
	Unknown names.Unknown // what was looked at, if it is not known
	Row     actionRow
	Spark   charts.Spark
	Day     *charts.Day // nil if nothing is noted
	Limits  *limitRow   // nil if there are none
	Errors  []stint.ErrorGroup
	// ErrorsOf says of which tasks the errors are; empty if they are of all.
	ErrorsOf string
	Slow     []stint.TaskInfo
	Failing  []stint.TaskInfo
	Actors   []stint.ActorInfo
	// Schedules are those that insert such tasks.
	Schedules []stint.ScheduleInfo
	Command   string
	Worker    string // the command that performs such tasks, if nobody does
	Offer     *offer // what can be done with the action
	PauseKey  *offer
	OnShards  []show.Part // its pages there
	PausedOn  []show.Part
	Now       time.Time
}

// actionPage shows what is known of an action.
func actionPage(h *Handler, r *request) (view, error) {
	ctx := r.Context()
	data := actionData{Partly: r.partly, Name: r.URL.Query().Get("name"), Now: r.now}
	if display.Text(data.Name) == data.Name {
		data.Command = "stint ls --action=" + display.Word(data.Name)
	}
	stats, found, actors, err := h.asked.All(ctx)
	if err != nil {
		return view{}, err
	}
	limits, err := h.asked.LimitsOf(ctx, data.Name)
	if err != nil {
		return view{}, err
	}
	if limits != nil {
		row := newLimitRow(limits)
		h.offerLimits(r, &row)
		data.Limits, data.Offer = &row, row.Offer
	} else {
		row := limitRow{ActionLimits: stint.ActionLimits{Action: data.Name}}
		h.offerLimits(r, &row)
		data.Offer = row.Offer
	}
	data.PauseKey = h.offer(r, []field{
		{"what", "key"}, {"action", packText(data.Name)}, {"back", here(r)},
	}, "pause").called("Pause the key")
	for _, row := range actionRows(stats, &h.asked.Rates) {
		if row.Action == data.Name {
			data.Row = row
		}
	}
	data.Spark = h.asked.Rates.Spark(data.Name)
	data.OnShards, data.PausedOn = h.asked.ShardsWith(ctx, data.Name)
	if data.Errors, err = h.asked.ErrorsOf(ctx, &found, data.Name); err != nil {
		return view{}, err
	}
	data.ErrorsOf = errorsOf(&found, data.Name)
	data.Slow = ofAction(found.Slow, data.Name)
	data.Failing = ofAction(found.Failing, data.Name)
	for _, actor := range actors {
		if slices.Contains(actor.Actions, data.Name) {
			data.Actors = append(data.Actors, actor)
		}
	}
	if data.Command != "" && !data.Partly && len(data.Actors) == 0 && data.Row.Ready > 0 &&
		data.Name != stint.External && data.Name != stint.Spontaneous {
		data.Worker = "stint worker --action=" + display.Word(data.Name)
	}
	data.Schedules = h.asked.SchedulesOf(ctx, data.Name)
	unknown, err := names.UnknownActions(ctx, ask.Names{Store: h.asked}, false, data.Name)
	switch {
	case err != nil:
		return view{}, err
	case len(unknown) > 0:
		data.Unknown = unknown[0]
	case data.Row.Action == "":
		none := stint.Stats{Actions: []stint.ActionStats{{Action: data.Name}}}
		data.Row = actionRows(none, &h.asked.Rates)[0]
	}
	if data.Known = len(unknown) == 0; data.Known {
		data.Day = h.asked.Day(ctx, data.Name, r.now)
	}
	return view{name: "action", title: show.Text(data.Name), data: data}, nil
}

// errorsOf says of which tasks the groups of errors of an action are, if not of all.
func errorsOf(found *ask.Troubles, action string) string {
	isOf := func(group stint.ErrorGroup) bool { return group.Action == action }
	switch {
	case !found.ErrorsCut:
		return ""
	case slices.ContainsFunc(found.Errors, isOf):
		return "Of the last 10,000 tasks that failed at most, whatever their actions, and as " +
			"many that are tried again."
	}
	return "Of its last 1,000 aborted tasks at most."
}

// ofAction are the first tasks of an action.
func ofAction(tasks []stint.TaskInfo, action string) []stint.TaskInfo {
	const most = 20
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(task stint.TaskInfo) bool {
		return task.Action != action
	})
	return tasks[:min(len(tasks), most)]
}
