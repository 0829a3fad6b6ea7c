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
	// field is what a field looks like; NAME stands for its name, in words with _ or in one word.
	field string
	camel bool
	// lacks are fields that the list does not have, with the reason.
	lacks map[string]string
}

const (
	messages   = "../../api/proto/stint/v1/"
	python     = "../../client/python/stint/tasks.py"
	typescript = "../../client/typescript/src/tasks.ts"
	command    = "../../cmd/stint/internal/command/"
)

func lists() map[reflect.Type][]list {
	ofProto := func(file, message string, lacks map[string]string) list {
		return list{
			file: messages + file, from: "\nmessage " + message + " {", to: "\n}",
			field: `\sNAME = \d+`, lacks: lacks,
		}
	}
	ofPython := func(class string, lacks map[string]string) list {
		return list{
			file: python, from: "\nclass " + class + ":", to: "\n\n\n",
			// With its type: the text of the class names it, too.
			field: `\n    NAME_?: (?:str|int|bool|float|[A-Z]\w*(?:\[.*\])?)(?: = .*)?(?:\n|$)`,
			lacks: lacks,
		}
	}
	ofTypeScript := func(name string, lacks map[string]string) list {
		return list{
			file: typescript, from: "\nexport interface " + name + " {", to: "\n}", camel: true,
			field: `\n  NAME\??: `, lacks: lacks,
		}
	}
	return map[reflect.Type][]list{
		reflect.TypeFor[stint.Task](): {
			ofProto("task.proto", "Task", nil), ofPython("Task", nil), ofTypeScript("Task", nil),
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
			ofProto("task.proto", "TaskInfo", nil), ofPython("TaskInfo", nil),
			ofTypeScript("TaskInfo", nil),
			{
				file: command + "task_json.go", from: "\ntype taskJSON struct {", to: "\n}",
				field: "`json:\"NAME[\",]",
			},
		},
		reflect.TypeFor[stint.OwnedTask](): {
			ofProto("task.proto", "OwnedTask", nil), ofPython("OwnedTask", nil),
			ofTypeScript("OwnedTask extends Performance", map[string]string{
				"ID": "of Performance", "Token": "of Performance",
			}),
		},
		reflect.TypeFor[stint.Schedule](): {
			ofProto("schedules.proto", "Schedule", nil), ofPython("Schedule", nil),
			ofTypeScript("Schedule", nil),
			{
				file: command + "schedule_json.go", from: "\nfunc setScheduleField(", to: "\n}",
				field: `case "NAME"`,
			},
			{
				file: command + "schedule_json.go", from: "\ntype scheduleJSON struct {", to: "\n}",
				field: "`json:\"NAME[\",]",
			},
		},
		reflect.TypeFor[stint.Limits](): {
			ofProto("limits.proto", "Limits", nil), ofPython("Limits", nil),
			ofTypeScript("Limits", nil),
		},
	}
}

// Each field of what calls take and return is in the message, in the types for Python and
// TypeScript, and in what the command reads and prints.
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
				name := inWords(field.Name, place.camel)
				is := regexp.MustCompile(strings.ReplaceAll(place.field, "NAME", name)).
					MatchString(named)
				if _, lacks := place.lacks[field.Name]; is == lacks {
					t.Errorf("%v.%s: %s%s has it: %t", of, field.Name, place.file,
						strings.TrimSpace(place.from), is)
				}
			}
		}
	}
}

// inWords returns the name of a field as other languages write it.
func inWords(name string, camel bool) string {
	var words strings.Builder
	letters := []rune(name)
	for i, letter := range letters {
		begins := unicode.IsUpper(letter) && i > 0 && (!unicode.IsUpper(letters[i-1]) ||
			i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		switch {
		case begins && camel:
			words.WriteRune(letter)
			continue
		case begins:
			words.WriteByte('_')
		}
		words.WriteRune(unicode.ToLower(letter))
	}
	return words.String()
}
