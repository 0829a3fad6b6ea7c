package wire

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// CatchUps are the words for [stint.CatchUp], in the order of its values.
func CatchUps() []string { return []string{"last", "skip", "all"} }

// Overlaps are the words for [stint.Overlap], in the order of its values.
func Overlaps() []string { return []string{"allow", "skip", "wait", "abort"} }

// FromSchedules converts schedules into messages.
func FromSchedules(schedules []stint.Schedule) []*stintv1.Schedule {
	messages := make([]*stintv1.Schedule, len(schedules))
	for i := range schedules {
		messages[i] = fromSchedule(&schedules[i])
	}
	return messages
}

func fromSchedule(d *stint.Schedule) *stintv1.Schedule {
	return &stintv1.Schedule{
		Name: d.Name, Spec: d.Spec, Zone: d.Zone, Tasks: FromTasks(d.Tasks),
		CatchUp: fromWord(int16(d.CatchUp), CatchUps()), Window: FromDuration(d.Window),
		Overlap: fromWord(int16(d.Overlap), Overlaps()), Jitter: FromDuration(d.Jitter),
		From: fromTime(d.From), To: fromTime(d.To), Expire: d.Expire,
	}
}

// fromWord is the word for a value, empty for the default. A value without one stays a number,
// which is refused.
func fromWord(value int16, words []string) string {
	switch {
	case value == 0:
		return ""
	case value < 0 || int(value) >= len(words):
		return strconv.Itoa(int(value))
	}
	return words[value]
}

// ToSchedules converts messages into schedules. What the messages can say and schedules cannot is
// refused with a [*stint.ScheduleError].
func ToSchedules(messages []*stintv1.Schedule) ([]stint.Schedule, error) {
	schedules := make([]stint.Schedule, len(messages))
	for i, message := range messages {
		var err error
		if schedules[i], err = toSchedule(message); err != nil {
			return nil, &stint.ScheduleError{Names: []string{message.GetName()}, Err: err}
		}
	}
	return schedules, nil
}

func toSchedule(m *stintv1.Schedule) (d stint.Schedule, err error) {
	d = stint.Schedule{
		Name: m.GetName(), Spec: m.GetSpec(), Zone: m.GetZone(), Window: m.GetWindow().AsDuration(),
		Jitter: m.GetJitter().AsDuration(), From: toTime(m.GetFrom()), To: toTime(m.GetTo()),
		Expire: m.GetExpire(),
	}
	catchUp, err := toWord("Schedule.CatchUp", m.GetCatchUp(), CatchUps())
	if err != nil {
		return d, err
	}
	overlap, err := toWord("Schedule.Overlap", m.GetOverlap(), Overlaps())
	if err != nil {
		return d, err
	}
	d.CatchUp, d.Overlap = stint.CatchUp(catchUp), stint.Overlap(overlap)
	d.Tasks, err = ToTasks(m.GetTasks())
	return d, err
}

func toWord(argument, word string, words []string) (int16, error) {
	i := slices.Index(words, word)
	if i < 0 && word != "" {
		return 0, argumentError(argument, "must be one of "+strings.Join(words, ", "))
	}
	return int16(max(i, 0)), nil //nolint:gosec // there are few words
}

// FromScheduleInfos converts schedules, and how far they have come, into messages. With text,
// bodies are text if they are UTF-8.
func FromScheduleInfos(infos []stint.ScheduleInfo, text bool) []*stintv1.ScheduleInfo {
	messages := make([]*stintv1.ScheduleInfo, len(infos))
	for i := range infos {
		info := &infos[i]
		messages[i] = &stintv1.ScheduleInfo{
			Schedule: fromSchedule(&info.Schedule), NextAt: fromTime(info.NextAt),
			LastAt: fromTime(info.LastAt), LastIds: FromIDs(info.LastIDs),
			Missed: info.Missed, Skipped: info.Skipped,
			PausedSince: fromTime(info.PausedSince), ChangedAt: fromTime(info.ChangedAt),
			Hidden: info.Hidden,
		}
		for _, task := range messages[i].GetSchedule().GetTasks() {
			if body, ok := task.GetContent().(*stintv1.Task_Body); ok && text &&
				utf8.Valid(body.Body) {
				task.Content = &stintv1.Task_Text{Text: string(body.Body)}
			}
		}
	}
	return messages
}

// ToScheduleInfos undoes [FromScheduleInfos].
func ToScheduleInfos(messages []*stintv1.ScheduleInfo) ([]stint.ScheduleInfo, error) {
	var infos []stint.ScheduleInfo
	for _, m := range messages {
		schedule, err := toSchedule(m.GetSchedule())
		if err != nil {
			return nil, err
		}
		infos = append(infos, stint.ScheduleInfo{
			Schedule: schedule, NextAt: toTime(m.GetNextAt()), LastAt: toTime(m.GetLastAt()),
			LastIDs: ToIDs(m.GetLastIds()), Missed: m.GetMissed(), Skipped: m.GetSkipped(),
			PausedSince: toTime(m.GetPausedSince()), ChangedAt: toTime(m.GetChangedAt()),
			Hidden: m.GetHidden(),
		})
	}
	return infos, nil
}
