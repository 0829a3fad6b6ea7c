package migrations_test

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/sqlfile"
	"github.com/stint-tasks/stint/internal/testing/golden"
)

// The function finish_task runs the statements of the verbs, as they are: finish_task.sql is made
// of testdata/finish_task.sql, in which comments stand for them. -update writes it.
func TestFinishTask_RunsTheStatementsOfTheVerbs(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/finish_task.sql")
	if err != nil {
		t.Fatal(err)
	}
	known := statementsBelow(t, "../sql", "../internal/limit/sql", "../internal/pg/sql")
	text := runPattern.ReplaceAllStringFunc(string(file), func(comment string) string {
		match := runPattern.FindStringSubmatch(comment)
		indent, record, name, values := match[1], match[2], match[3], match[4]
		statement := with(t, name, known[name], values)
		if record == "" {
			return indented(indent, statement) + ";\n"
		}
		return fmt.Sprintf("%sFOR %s IN\n%s\n", indent, record, indented(indent+"    ", statement))
	})
	var set []string
	for _, one := range settingPattern.FindAllStringSubmatch(known["set_planner"], -1) {
		value := one[2]
		if one[1] == "search_path" { // a list, not a name
			value = strings.Trim(value, "'")
		}
		set = append(set, fmt.Sprintf("SET %s = %s", one[1], value))
	}
	text = strings.Replace(text, "-- settings set_planner", strings.Join(set, "\n"), 1)
	// Who replaces the name of the schema in the file leaves these texts alone.
	text = literalPattern.ReplaceAllString(text, `E'\x73tint.$1'`)
	golden.Want(t, "finish_task.sql", text)
}

var (
	// runPattern finds the comments that stand for a statement, with what its parameters are: to
	// run it, or to look at each of its rows.
	runPattern = regexp.MustCompile(
		`(?m)^( *)-- (?:run|for (\w+) in) (\w+)\n((?: *--   \$\d+ .*\n)+)`)
	valuePattern     = regexp.MustCompile(`\$(\d+) (.*)`)
	parameterPattern = regexp.MustCompile(`\$\d+`)
	literalPattern   = regexp.MustCompile(`'stint\.(Spontaneous|gate/)'`)
	settingPattern   = regexp.MustCompile(`set_config\('(\w+)', ('[^']*'), true\)`)
)

// with returns a statement with values for its parameters.
func with(t *testing.T, name, statement, values string) string {
	t.Helper()
	given, used := map[string]string{}, map[string]bool{}
	for _, value := range valuePattern.FindAllStringSubmatch(values, -1) {
		given["$"+value[1]] = value[2]
	}
	text := parameterPattern.ReplaceAllStringFunc(statement, func(parameter string) string {
		used[parameter] = true
		if given[parameter] == "" {
			t.Errorf("%s has no %s", name, parameter)
		}
		return given[parameter]
	})
	if len(used) != len(given) {
		t.Errorf("%s has %d parameters, want %d", name, len(given), len(used))
	}
	return text
}

func indented(indent, text string) string {
	return indent + strings.ReplaceAll(text, "\n", "\n"+indent)
}

// statementsBelow are the statements in folders, by their names, without comments.
func statementsBelow(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, folder := range folders {
		files := os.DirFS(folder)
		err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			file, err := fs.ReadFile(files, path)
			for name, text := range sqlfile.Split(string(file)) {
				texts[name] = sqlfile.Statement(text)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}
