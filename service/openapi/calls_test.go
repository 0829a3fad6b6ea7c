package openapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// The requests that a service takes, its answers and its errors are as described.
func TestSchemas_DescribeACallAndItsAnswer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	address, _ := testservice.Start(t, pool, store, service.Options{})
	tasks := caller(t, address+"/stint.v1.TaskService/")
	owners := caller(t, address+"/stint.v1.WorkerService/")
	tasks("InsertTasks", `{"tasks":[{"id":"a","action":"mail","text":"b","post_result":true,`+
		`"max_tries":-1},{"id":"b","action":"mail","body":"/w==","after":["a"],`+
		`"deadline":"2100-01-02T03:04:05Z"}]}`, "")
	tasks("InsertTasks", `{"tasks":[{"id":"a","action":"mail"}]}`, "already_exists")
	tasks("AddDependencies", `{"dependencies":[{"predecessor":"b","dependent":"a"}]}`,
		"failed_precondition")
	tasks("Debounce", `{"task":{"id":"quiet","action":"x"},"quiet":"60s","at_most":"300s"}`, "")
	tasks("Debounce", `{"task":{"id":"quiet","action":"x"},"quiet":"60s"}`, "invalid_argument")
	answer := owners("OwnTasks", `{"actor":"x","session":"1","claim":"17","max_tasks":1,`+
		`"actions":["mail"],"lease":"60s","wait":"20.5s","text":true}`, "")
	var owned struct{ Tasks []struct{ Token string } }
	if err := json.Unmarshal(answer, &owned); err != nil || len(owned.Tasks) != 1 {
		t.Fatalf("OwnTasks answers %s: %v", answer, err)
	}
	performance := fmt.Sprintf(`{"id":"a","token":%q`, owned.Tasks[0].Token)
	owners("SetStatus", performance+`,"status":"half","progress":0.5}`, "")
	owners("DrawFence", performance+`}`, "")
	owners("GetInputs", performance+`}`, "")
	owners("RecordStep", performance+`,"name":"step","result_text":"42","text":true}`, "")
	owners("ListSteps", performance+`,"text":true}`, "")
	owners("ExtendTasksOwnership", `{"actor":"x","tasks":[`+performance+`}],"lease":"60s"}`, "")
	tasks("ListActors", `{}`, "")
	owners("ReturnTasks", `{"returns":[`+performance+`,"code":"completed","result":"/w=="},`+
		`{"id":"none","token":"00000000-0000-0000-0000-000000000001","code":"completed"}]}`, "")
	tasks("ExplainTask", `{"id":"b"}`, "")
	tasks("GetHistory", `{"id":"a"}`, "")
	tasks("ListChanges", `{"id":"a","limit":3}`, "")
	tasks("GetGraph", `{"id":"a"}`, "")
	tasks("GetEnds", `{"wait":"0s"}`, "")
	tasks("GetEnds", `{"from":"x"}`, "invalid_argument")
	tasks("GetStats", `{}`, "")
	tasks("ListProblems", `{"limit":10}`, "")
	callLimitsAndSchedules(tasks)
	tasks("WaitForTasks", `{"ids":["a"],"wait":"1s"}`, "")
	tasks("ListTasks", `{"states":["ready","completed"],"max_age":"3600s"}`, "")
	tasks("Transact", `{"must_exist":["a"],"insert":[{"id":"c","action":"x"}],"abort":["b"]}`, "")
	tasks("GetTasks", `{"ids":["a","b","c"]}`, "")
	tasks("RetryTasks", `{"ids":["b"]}`, "")
	tasks("DeleteTasks", `{"ids":["a","c"]}`, "")
	tasks("GetTasks", `{"ids":["a"]}`, "not_found")
}

func callLimitsAndSchedules(tasks func(verb, body, wantCode string) []byte) {
	tasks("SetLimits", `{"action":"mail","limits":{"concurrency":40,"concurrency_per_key":1,`+
		`"rate":{"tasks":5,"per":"60s","burst":3},"rate_per_key":{"tasks":1,"per":"0.5s"},`+
		`"fair":true}}`, "")
	tasks("SetLimits", `{"action":"mail","limits":{"concurrency":-1}}`, "invalid_argument")
	tasks("SetWeights", `{"action":"mail","weights":[{"key":"k","weight":3}]}`, "")
	tasks("PauseKeys", `{"action":"mail","keys":["k","l"]}`, "")
	tasks("Pause", `{"actions":["mail"]}`, "")
	tasks("ListLimits", `{}`, "")
	tasks("ResumeKeys", `{"action":"mail","keys":["k","l"]}`, "")
	tasks("Resume", `{"actions":["mail"]}`, "")
	tasks("PutSchedules", `{"schedules":[{"name":"s","spec":"0 8 * * mon","zone":"Europe/Berlin",`+
		`"tasks":[{"id":"x","action":"mail","text":"b"},{"id":"y","action":"mail","after":["x"]}],`+
		`"catch_up":"all","window":"3600s","overlap":"wait","jitter":"60s","expire":true,`+
		`"from":"2026-01-02T03:04:05Z","to":"2100-01-02T03:04:05Z"}]}`, "")
	tasks("EnsureSchedules", `{"schedules":[{"name":"t","spec":"every 90s",`+
		`"tasks":[{"action":"mail"}]}]}`, "")
	tasks("EnsureSchedules", `{"schedules":[{"name":"t","spec":"never"}]}`, "invalid_argument")
	tasks("PauseSchedules", `{"names":["s","t"]}`, "")
	tasks("ListSchedules", `{"text":true}`, "")
	tasks("ResumeSchedules", `{"names":["s"]}`, "")
	tasks("TriggerSchedule", `{"name":"s"}`, "")
	tasks("DeleteSchedules", `{"names":["s","t"]}`, "")
	tasks("DeleteSchedules", `{"names":["s"]}`, "not_found")
}

// caller returns what calls the verbs of a service. Each wants an answer, or the code of an error.
func caller(t *testing.T, address string) func(verb, body, wantCode string) []byte {
	t.Helper()
	return func(verb, body, wantCode string) []byte {
		t.Helper()
		response, text := post(t, address+verb, body)
		name := protoreflect.FullName("stint.v1." + verb + "Response")
		if response.StatusCode != http.StatusOK {
			name = "connect.Error"
		}
		var failed struct{ Code string }
		if err := json.Unmarshal(text, &failed); err != nil || failed.Code != wantCode {
			t.Errorf("%s %s = %s: %v, want the code %q", verb, body, text, err, wantCode)
		}
		request := schemaOf(t, protoreflect.FullName("stint.v1."+verb+"Request"))
		if err := check(request, []byte(body)); err != nil {
			t.Errorf("%s %s: %v", verb, body, err)
		}
		if err := check(schemaOf(t, name), text); err != nil {
			t.Errorf("%s answers %s: %v", verb, text, err)
		}
		return text
	}
}

func post(t *testing.T, address, body string) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, text
}
