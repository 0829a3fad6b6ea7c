package drawing

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/golden"
)

// network is a graph of tasks in some state; each pair of IDs is an edge.
func network(tasks []stint.TaskInfo, edges ...[2]stint.TaskID) *stint.Graph {
	graph := &stint.Graph{Tasks: tasks}
	for _, e := range edges {
		graph.Dependencies = append(graph.Dependencies,
			stint.Dependency{Predecessor: e[0], Dependent: e[1]})
	}
	return graph
}

func fanIn(tasks int) *stint.Graph {
	graph := &stint.Graph{}
	for i := range tasks {
		id := stint.TaskID(fmt.Sprintf("page/%02d", i))
		graph.Tasks = append(graph.Tasks,
			stint.TaskInfo{ID: id, Action: "export", State: stint.StateReady})
		graph.Dependencies = append(graph.Dependencies,
			stint.Dependency{Predecessor: id, Dependent: "bind"})
	}
	graph.Tasks = append(graph.Tasks, stint.TaskInfo{
		ID: "bind", Action: "bind", State: stint.StateBlocked, OnAbort: stint.RunAnyway,
	})
	return graph
}

func draw(t interface{ Fatal(...any) }, graph *stint.Graph, asked stint.TaskID) string {
	var svg strings.Builder
	if err := WriteSVG(&svg, graph, asked); err != nil {
		t.Fatal(err)
	}
	return svg.String()
}

// To see what a change does to them: go test ./internal/drawing -update, and open testdata/*.svg.
func TestWriteSVG_DrawsTheGoldenFiles(t *testing.T) {
	t.Parallel()
	type tasks = []stint.TaskInfo
	for _, test := range []struct {
		name  string
		asked stint.TaskID
		graph *stint.Graph
	}{
		{"isolated", "alone", network(tasks{
			{ID: "alone", Action: "act", State: stint.StateScheduled},
		})},
		{"chain", "second", network(tasks{
			{ID: "first", Action: "fetch", State: stint.StateCompleted, Tries: 1},
			{
				ID: "second", Action: "convert", State: stint.StateAborted, Tries: 3, MaxTries: 3,
				AbortCause: stint.CauseTries,
			},
			{
				ID: "third", Action: "send", State: stint.StateAborted,
				AbortCause: stint.CauseDependency,
			},
		}, [2]stint.TaskID{"first", "second"}, [2]stint.TaskID{"second", "third"})},
		{"diamond", "join", network(tasks{
			{ID: "start", Action: "plan", State: stint.StateCompleted, Tries: 1, MaxTries: 2},
			{ID: "left", Action: "act", State: stint.StateInProgress, Tries: 2},
			{ID: "right", Action: "act", State: stint.StateReady, OnAbort: stint.RunAnyway},
			{ID: "join", Action: stint.Spontaneous, State: stint.StateBlocked},
		}, [2]stint.TaskID{"start", "left"}, [2]stint.TaskID{"start", "right"},
			[2]stint.TaskID{"left", "join"}, [2]stint.TaskID{"right", "join"})},
		{"fan-in", "bind", fanIn(20)},
	} {
		got := draw(t, test.graph, test.asked)
		parse(t, got)
		golden.Want(t, filepath.Join("testdata", test.name+".svg"), got)
	}
}

func TestWriteSVG_TellsOfEachTask(t *testing.T) {
	t.Parallel()
	id := stint.TaskID("export/" + strings.Repeat("europe/", 20) + "page")
	task := stint.TaskInfo{
		ID: id, Action: "act", State: stint.StateAborted, AbortCause: stint.CauseExpired,
		Tries: 1, MaxTries: 4, OnAbort: stint.RunAnyway,
	}
	graph := network([]stint.TaskInfo{task, {ID: "next", Action: "act", State: stint.StateBlocked}},
		[2]stint.TaskID{id, "next"})
	svg := draw(t, graph, id)
	for _, part := range []string{
		"<title>" + string(id) + "&#xA;act&#xA;aborted, expired&#xA;1 of 4 tries&#xA;runs anyway",
		">export/europe/…e/europe/page</text>", `class="task aborted"`, ">aborted, expired</text>",
		">1 of 4 tries</text>", `class="asked"`, "prefers-color-scheme: dark",
	} {
		if !strings.Contains(svg, part) {
			t.Errorf("the picture does not hold %q:\n%s", part, svg)
		}
	}
	if strings.Contains(svg, "goes on") || strings.Count(svg, `class="asked"`) != 1 {
		t.Errorf("the picture says too much:\n%s", svg)
	}
	parse(t, draw(t, &stint.Graph{}, "none"))
	graph.Cut = true
	if want := "The network goes on; these are the 2 tasks"; !strings.Contains(
		draw(t, graph, id), want) {
		t.Errorf("the picture of a cut network does not say %q", want)
	}
}

func TestWriteSVG_HasColoursForEveryState(t *testing.T) {
	t.Parallel()
	light, dark, _ := strings.Cut(style, "@media")
	for _, state := range []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
		stint.StateCompleted, stint.StateAborted,
	} {
		for _, rule := range []string{" rect", " .state"} {
			rule = "." + string(state) + rule
			if !strings.Contains(light, rule) || !strings.Contains(dark, rule) {
				t.Errorf("the style lacks %q in light or dark", rule)
			}
		}
	}
}

// IDs and actions may hold anything; the drawing must stay one, and nothing in it be hidden.
func TestWriteSVG_WritesAnyText(t *testing.T) {
	t.Parallel()
	hostile := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"", `"]]><script>alert(1)</script><!--`, "&amp;'</title>", "\x00\x01\x1b[31m\n\r\t\x7f",
		"\u202eevil\u202c\u2066\u200b", "שלום/עולם", "任务/" + strings.Repeat("任", 170), "\xff\xc0",
		"\ufffe\uffff\U0010ffff", "a" + strings.Repeat("\u0301", 255), strings.Repeat("x", 512),
	}))
	rapid.Check(t, func(t *rapid.T) {
		first := stint.TaskInfo{
			ID: stint.TaskID(hostile.Draw(t, "ID")), Action: hostile.Draw(t, "action"),
			State: stint.StateReady,
		}
		second := stint.TaskInfo{ID: "2" + first.ID, Action: "act", State: stint.StateBlocked}
		elements := parse(t, draw(t, network([]stint.TaskInfo{first, second},
			[2]stint.TaskID{first.ID, second.ID}), first.ID))
		if elements["svg"] != 1 || elements["title"] != 3 || elements["script"] != 0 {
			t.Errorf("the elements are %v", elements)
		}
	})
}

// parse checks that a picture is well-formed and shows all its text, and counts its elements.
func parse(t interface {
	Fatal(...any)
	Errorf(string, ...any)
}, svg string,
) map[string]int {
	elements := map[string]int{}
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return elements
		} else if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
		case xml.CharData:
			for _, r := range string(token) {
				if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
					t.Errorf("%q holds %U", token, r)
				}
			}
		}
	}
}

func BenchmarkWriteSVG(b *testing.B) {
	graph := &stint.Graph{}
	for i := range 1000 {
		id := stint.TaskID(fmt.Sprintf("task/%d", i))
		graph.Tasks = append(graph.Tasks,
			stint.TaskInfo{ID: id, Action: "act", State: stint.StateBlocked})
		for _, before := range []int{i - 1 - i*7%40, i - 1 - i*31%200} {
			if before >= 0 {
				graph.Dependencies = append(graph.Dependencies,
					stint.Dependency{Predecessor: graph.Tasks[before].ID, Dependent: id})
			}
		}
	}
	for b.Loop() {
		if err := WriteSVG(io.Discard, graph, "task/500"); err != nil {
			b.Fatal(err)
		}
	}
}
