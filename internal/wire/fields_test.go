package wire_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stint-tasks/stint"
)

// A list is a place where the fields of a type are named one by one.
type list struct {
	file, from, to string // the list begins behind from, and ends at to
	// field is what a field looks like; NAME stands for its name, in words with _.
	field string
	// lacks are fields that the list does not have, with the reason.
	lacks map[string]string
}

const (
	messages = "../../api/proto/stint/v1/"
	command  = "../../cmd/stint/internal/command/"
)

func lists() map[reflect.Type][]list {
	ofProto := func(file, message string) list {
		return list{
			file: messages + file, from: "\nmessage " + message + " {", to: "\n}",
			field: `\sNAME = \d+`,
		}
	}
	return map[reflect.Type][]list{
		reflect.TypeFor[stint.Task](): {
			ofProto("task.proto", "Task"),
			{
				file: command + "task_json.go", from: "\nfunc setField(", to: "\n}",
				field: `case "NAME"`,
			},
			{
				file: command + "task_json.go", to: "\n}",
				from:  "\ntype scheduledTaskJSON struct {",
				field: "`json:\"NAME[\",]", lacks: map[string]string{
					"NotBefore": "of a schedule", "Deadline": "of a schedule",
					"AnswerKey": "the same for all tasks of a schedule",
				},
			},
		},
		reflect.TypeFor[stint.TaskInfo](): {
			ofProto("task.proto", "TaskInfo"),
			{
				file: command + "task_json.go", from: "\ntype taskJSON struct {", to: "\n}",
				field: "`json:\"NAME[\",]",
			},
		},
		reflect.TypeFor[stint.OwnedTask](): {ofProto("task.proto", "OwnedTask")},
		reflect.TypeFor[stint.Schedule](): {
			ofProto("schedules.proto", "Schedule"),
			{
				file: command + "schedule_json.go", from: "\nfunc setScheduleField(", to: "\n}",
				field: `case "NAME"`,
			},
			{
				file: command + "schedule_json.go", from: "\ntype scheduleJSON struct {", to: "\n}",
				field: "`json:\"NAME[\",]",
			},
		},
		reflect.TypeFor[stint.Limits](): {ofProto("limits.proto", "Limits")},
	}
}

// Each field of what calls take and return is in the message, of which the types for Python and
// TypeScript are made, and in what the command reads and prints.
func TestFields_AreInEveryList(t *testing.T) {
	t.Parallel()
	for of, places := range lists() {
		fields := reflect.VisibleFields(of)
		for _, place := range places {
			text, err := os.ReadFile(place.file)
			if err != nil {
				t.Fatal(err)
			}
			_, named, found := strings.Cut(string(text), place.from)
			named, _, closed := strings.Cut(named, place.to)
			if !found || !closed {
				t.Fatalf("%s has no list behind %q", place.file, place.from)
			}
			for _, field := range fields {
				if field.Anonymous || !field.IsExported() {
					continue
				}
				name := inWords(field.Name)
				is := regexp.MustCompile(strings.ReplaceAll(place.field, "NAME", name)).
					MatchString(named)
				if _, lacks := place.lacks[field.Name]; is == lacks {
					t.Errorf("%v.%s: %q in %s has %s: %t", of, field.Name,
						strings.TrimSpace(place.from), place.file, name, is)
				}
			}
		}
	}
}

// inWords returns the name of a field as other languages write it.
func inWords(name string) string {
	var words strings.Builder
	letters := []rune(name)
	for i, letter := range letters {
		begins := unicode.IsUpper(letter) && i > 0 && (!unicode.IsUpper(letters[i-1]) ||
			i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if begins {
			words.WriteByte('_')
		}
		words.WriteRune(unicode.ToLower(letter))
	}
	return words.String()
}
