package stintprom_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v4"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stintprom"
	"github.com/stint-tasks/stint/worker"
)

// exported are the labels of all metrics of this package, with their values.
type exported map[string]map[string][]string

func exportedMetrics(t *testing.T) exported {
	t.Helper()
	store := newStore(t, testdb.New(t))
	if err := store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "copy"}, {ID: "b", Action: stint.External},
	}); err != nil {
		t.Fatal(err)
	}
	if err := store.SetLimits(t.Context(), "copy", stint.Limits{Concurrency: 3}); err != nil {
		t.Fatal(err)
	}
	metrics := stintprom.NewWorkerMetrics()
	task := &stint.OwnedTask{Action: "copy"}
	metrics.Begin(task)
	metrics.End(task, worker.OutcomeCompleted, time.Second)
	calls := stintprom.NewServiceMetrics()
	calls.Begin("/stint.v1.TaskService/InsertTasks")
	calls.End("/stint.v1.TaskService/InsertTasks", "ok", time.Second)
	registry := prometheus.NewRegistry()
	registry.MustRegister(stintprom.NewCollector(store), metrics, calls)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := exported{}
	for _, family := range families {
		labels := map[string][]string{}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				name := label.GetName()
				labels[name] = append(labels[name], label.GetValue())
			}
		}
		name := family.GetName()
		if family.GetMetric()[0].GetHistogram() == nil {
			all[name] = labels
			continue
		}
		all[name+"_sum"], all[name+"_count"] = labels, labels
		all[name+"_bucket"] = map[string][]string{"le": nil}
		for label, values := range labels {
			all[name+"_bucket"][label] = values
		}
	}
	return all
}

var (
	metricNamed = regexp.MustCompile(`\bstint_\w+`)
	selector    = regexp.MustCompile(`(stint_\w+)\{([^}]*)\}`)
	matcher     = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"`)
	grouping    = regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`)
	word        = regexp.MustCompile(`\w+`)
)

// check checks that the metrics of an expression exist, with the labels and the values that it
// selects, and that the text shows only labels which the result has.
func (all exported) check(t *testing.T, where, expr string, shown []string) {
	t.Helper()
	names := metricNamed.FindAllString(expr, -1)
	if len(names) == 0 {
		t.Errorf("%s: %q asks for nothing", where, expr)
	}
	labels := map[string]bool{}
	for _, name := range names {
		if all[name] == nil {
			t.Errorf("%s: there is no metric %s", where, name)
		}
		for label := range all[name] {
			labels[label] = true
		}
	}
	for _, selected := range selector.FindAllStringSubmatch(expr, -1) {
		for _, match := range matcher.FindAllStringSubmatch(selected[2], -1) {
			values, exists := all[selected[1]][match[1]]
			if !exists {
				t.Errorf("%s: %s has no label %s", where, selected[1], match[1])
			}
			for _, value := range strings.Split(match[2], "|") {
				if !strings.HasPrefix(value, "$") && !slices.Contains(values, value) {
					t.Errorf("%s: no %s has the %s %q", where, selected[1], match[1], value)
				}
			}
		}
	}
	var grouped []string
	for _, group := range grouping.FindAllStringSubmatch(expr, -1) {
		grouped = append(grouped, word.FindAllString(group[1], -1)...)
	}
	for _, label := range append(slices.Clone(grouped), shown...) {
		if !labels[label] {
			t.Errorf("%s: %q has no label %s", where, expr, label)
		}
	}
	for _, label := range shown {
		if !slices.Contains(grouped, label) {
			t.Errorf("%s: the result of %q has no label %s", where, expr, label)
		}
	}
	if strings.Count(expr, "(") != strings.Count(expr, ")") {
		t.Errorf("%s: the parentheses of %q do not match", where, expr)
	}
}

// namesIn are the first groups of a pattern in a text.
func namesIn(text, pattern string) []string {
	var names []string
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names
}

func TestDashboard_AsksForWhatIsExported(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	text, err := os.ReadFile("../docs/operations/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Templating struct {
			List []struct{ Type, Query string }
		}
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	all := exportedMetrics(t)
	for _, variable := range dashboard.Templating.List {
		if variable.Type != "query" {
			continue
		}
		found := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).
			FindStringSubmatch(variable.Query)
		if found == nil || all[found[1]][found[2]] == nil {
			t.Errorf("%q has no values", variable.Query)
		}
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			shown := namesIn(target.LegendFormat, `\{\{\s*(\w+)`)
			all.check(t, panel.Title, target.Expr, shown)
		}
	}
	if len(dashboard.Panels) == 0 {
		t.Error("the dashboard has no panels")
	}
}

func TestAlerts_AskForWhatIsExported(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	text, err := os.ReadFile("../docs/operations/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr string
				For         string
				Labels      struct{ Severity string }
				Annotations struct {
					Summary, Description string
					RunbookURL           string `yaml:"runbook_url"`
				}
			}
		}
	}
	if err := yaml.Load(text, &file, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	operations, err := os.ReadFile("../docs/operations/watching.md")
	if err != nil {
		t.Fatal(err)
	}
	const runbook = "https://github.com/stint-tasks/stint/blob/main/docs/operations/watching.md" +
		"#metrics-and-alerts"
	_, section, _ := strings.Cut(string(operations), "\n## Metrics and alerts\n")
	section, _, _ = strings.Cut(section, "\n## ")
	all := exportedMetrics(t)
	alerts := map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			told := rule.Annotations.Summary + rule.Annotations.Description
			all.check(t, rule.Alert, rule.Expr, namesIn(told, `\$labels\.(\w+)`))
			if rule.Annotations.Summary == "" || rule.Annotations.Description == "" ||
				rule.Annotations.RunbookURL != runbook || rule.Labels.Severity == "" {
				t.Errorf("%s says too little: %+v", rule.Alert, rule)
			}
			if _, err := time.ParseDuration(rule.For); rule.For != "" && err != nil {
				t.Errorf("%s: for: %v", rule.Alert, err)
			}
			if alerts[rule.Alert] || !strings.Contains(section, "`"+rule.Alert+"`") {
				t.Errorf("%s comes twice, or %s does not say what to do", rule.Alert, runbook)
			}
			alerts[rule.Alert] = true
		}
	}
	if len(alerts) == 0 {
		t.Error("there are no alerts")
	}
}
