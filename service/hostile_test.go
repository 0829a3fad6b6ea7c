package service_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/stint-tasks/stint"
	_ "github.com/stint-tasks/stint/api/stintv1" // for its descriptors
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

// procedures are all that a service has, by their paths; streams are those that stream.
func procedures() (unary []protoreflect.MethodDescriptor, streams []string) {
	protoregistry.GlobalFiles.RangeFilesByPackage("stint.v1",
		func(file protoreflect.FileDescriptor) bool {
			for i := range file.Services().Len() {
				methods := file.Services().Get(i).Methods()
				for j := range methods.Len() {
					m := methods.Get(j)
					if m.IsStreamingClient() || m.IsStreamingServer() {
						streams = append(streams, path(m))
					} else {
						unary = append(unary, m)
					}
				}
			}
			return true
		})
	slices.SortFunc(unary, func(a, b protoreflect.MethodDescriptor) int {
		return strings.Compare(path(a), path(b))
	})
	return unary, streams
}

func path(m protoreflect.MethodDescriptor) string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

// Values that a caller may send in a field of a kind, in JSON.
var (
	hostileTexts = []string{
		`""`, `"a"`, `"\u0000"`, `"` + strings.Repeat("x", 600) + `"`, "\"\xff\"", `"\ud800"`,
		`null`, `7`, `"00000000-0000-0000-0000-000000000000"`, `"completed"`, `"pending"`,
	}
	hostileNumbers = []string{
		`0`, `-1`, `1`, `2147483647`, `-2147483648`, `2147483648`, `9223372036854775807`,
		`"18446744073709551615"`, `1e400`, `0.5`, `"NaN"`, `"Infinity"`, `"x"`,
	}
	hostileDurations = []string{
		`"0s"`, `"-1s"`, `"0.000000001s"`, `"315576000000s"`, `"-315576000000s"`,
		`"315576000001s"`, `"9223372036s"`, `"1h"`, `60`, `"-0.5s"`,
	}
	hostileTimes = []string{
		`"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59.999999999Z"`, `"2026-02-30T00:00:00Z"`,
		`"0000-00-00T00:00:00Z"`, `"10000-01-01T00:00:00Z"`, `"1969-12-31T23:59:59.5+14:00"`,
	}
)

// hostile are values of a message in JSON: without anything, and with each field in turn as it must
// not be, beside others that are right if there is a frame for them.
func hostile(m protoreflect.MessageDescriptor, depth int) []string {
	switch m.FullName() {
	case "google.protobuf.Duration":
		return hostileDurations
	case "google.protobuf.Timestamp":
		return hostileTimes
	}
	values := []string{"{}", "[]", "null", "{"}
	frame := map[string]string{}
	for i := range m.Fields().Len() {
		if right, ok := plain[string(m.Fields().Get(i).Name())]; ok {
			frame[string(m.Fields().Get(i).Name())] = right
		}
	}
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		for _, value := range hostileField(field, depth) {
			values = append(values, object(frame, string(field.Name()), value))
		}
	}
	return values
}

// plain are values that are right, so that a call gets as far as the one that is not.
var plain = map[string]string{
	"actor": `"me"`, "claim": `"17"`, "session": `"1"`, "max_tasks": `1`, "actions": `["act"]`,
	"lease": `"60s"`, "action": `"act"`, "token": `"00000000-0000-8000-8000-000000000001"`,
	"code": `"completed"`, "ids": `["a"]`, "id": `"a"`, "limit": `1`,
}

func object(frame map[string]string, name, value string) string {
	fields := []string{fmt.Sprintf("%q:%s", name, value)}
	for other, right := range frame {
		if other != name {
			fields = append(fields, fmt.Sprintf("%q:%s", other, right))
		}
	}
	slices.Sort(fields)
	return "{" + strings.Join(fields, ",") + "}"
}

func hostileField(field protoreflect.FieldDescriptor, depth int) []string {
	var values []string
	switch field.Kind() {
	case protoreflect.MessageKind:
		if depth > 0 {
			values = hostile(field.Message(), depth-1)
		}
	case protoreflect.StringKind, protoreflect.BytesKind:
		values = hostileTexts
	case protoreflect.BoolKind:
		values = []string{"true", "7"}
	default:
		values = hostileNumbers
	}
	if !field.IsList() {
		return values
	}
	lists := []string{"null", "7", "[]", "[" + strings.Repeat("[", 20_000)}
	for i, value := range values {
		lists = append(lists, "["+value+"]")
		if i == 0 {
			lists = append(lists, "["+value+","+value+"]")
		}
	}
	return lists
}

// Whatever JSON somebody sends, the service says clearly what is wrong with it, and lives.
func FuzzService_JSON(f *testing.F) {
	testrun.Long(f)
	unary, _ := procedures()
	for i, m := range unary {
		for _, body := range testrun.Some(hostile(m.Input(), 2)) {
			f.Add(i, []byte(body))
		}
	}
	r := startSharded(f, service.Options{})
	f.Fuzz(func(t *testing.T, i int, body []byte) {
		m := unary[uint(i)%uint(len(unary))]
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			r.address+path(m), bytes.NewReader(body))
		wantErr(t, "NewRequest", err, nil)
		request.Header.Set("Content-Type", "application/json")
		if waits(m) {
			request.Header.Set("Connect-Timeout-Ms", "100")
		}
		response, err := http.DefaultClient.Do(request)
		wantErr(t, path(m), err, nil)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		wantErr(t, path(m), err, nil)
		var answer struct{ Code, Message string }
		switch err := json.Unmarshal(text, &answer); {
		case err != nil:
			t.Errorf("%s %.300q is answered by %d %.300q: %v", path(m), body, response.StatusCode,
				text, err)
		case response.StatusCode == http.StatusOK:
		case answer.Code == "deadline_exceeded" && waits(m):
		case response.StatusCode >= 500 || answer.Code == "" || answer.Message == "":
			t.Errorf("%s %.300q is answered by %d %.300q", path(m), body, response.StatusCode, text)
		}
	})
}

// waits reports whether a procedure may wait.
func waits(m protoreflect.MethodDescriptor) bool { return m.Input().Fields().ByName("wait") != nil }

// Whatever bytes somebody sends as gRPC, the service answers with a status, and lives.
func FuzzService_GRPC(f *testing.F) {
	testrun.Long(f)
	unary, streams := procedures()
	paths := streams
	for _, m := range unary {
		paths = append(paths, path(m))
	}
	frame := func(flags byte, size int, message string) []byte {
		head := []byte{flags, 0, 0, 0, 0}
		binary.BigEndian.PutUint32(head[1:], uint32(size))
		return append(head, message...)
	}
	for i := range paths {
		for _, message := range [][]byte{
			nil,
			{0},
			frame(0, 0, ""),
			frame(0, 2, "\x0a"),
			frame(0, 1<<31, "x"),
			frame(0, 3, "\x0a\x01\xff"),
			frame(0, 4, "\x0a\xff\xff\xff"),
			frame(0, 5, "\x0b\x0b\x0b\x0b\x0b"),
			frame(1, 3, "abc"),
			frame(2, 0, ""),
			frame('0', 0, "more than it says"),
			frame(255, 4, "abcd"),
			slices.Concat(frame(0, 0, ""), frame(0, 0, "")),
		} {
			f.Add(i, message)
		}
	}
	r := startSharded(f, service.Options{})
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	http2 := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	f.Fuzz(func(t *testing.T, i int, message []byte) {
		to := paths[uint(i)%uint(len(paths))]
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.address+to,
			bytes.NewReader(message))
		wantErr(t, "NewRequest", err, nil)
		request.Header.Set("Content-Type", "application/grpc")
		request.Header.Set("Te", "trailers")
		request.Header.Set("Grpc-Timeout", "300m") // some calls wait
		response, err := http2.Do(request)
		wantErr(t, to, err, nil)
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		wantErr(t, to, err, nil)
		status := response.Trailer.Get("Grpc-Status") + response.Header.Get("Grpc-Status")
		said := response.Trailer.Get("Grpc-Message") + response.Header.Get("Grpc-Message")
		const unknown, internal = "2", "13"
		if status == "" || status == unknown ||
			status == internal && !strings.Contains(said, "protocol error") &&
				!strings.Contains(said, "corrupt response") { // the words of Connect
			t.Errorf("%s %q is answered by %d, status %q: %s", to, message, response.StatusCode,
				status, said)
		}
	})
}

// A request of few bytes makes no large message, and none is decompressed.
func TestService_BoundsWhatARequestMakes(t *testing.T) {
	t.Parallel()
	r := start(t)
	const items = 300_000
	many := func(item, separator string) string {
		return strings.TrimSuffix(strings.Repeat(item+separator, items), separator)
	}
	for kind, body := range map[string]string{
		"application/proto": many("\x0a\x00", ""),
		"application/json":  `{"tasks":[` + many("{}", ",") + `]}`,
	} {
		code, text := r.send(t, "TaskService/InsertTasks", kind, strings.NewReader(body))
		if code != http.StatusBadRequest || !strings.Contains(string(text), "items") {
			t.Errorf("%s: %d %.300s, want a refusal of so many items", kind, code, text)
		}
	}
	code, text := r.send(t, "TaskService/InsertTasks", "application/json",
		strings.NewReader(`{"tasks":[{"id":"a","action":"b","text":"`+many("{,", "")+`"}]}`))
	if code != http.StatusOK {
		t.Errorf("a text with many commas = %d %.300s", code, text)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		r.address+"/stint.v1.TaskService/InsertTasks", strings.NewReader("x"))
	wantErr(t, "NewRequest", err, nil)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Content-Encoding", "gzip")
	response, err := http.DefaultClient.Do(request)
	wantErr(t, "Do", err, nil)
	defer response.Body.Close()
	if response.StatusCode != http.StatusNotImplemented {
		t.Errorf("a compressed request = %s", response.Status)
	}
}

// What a page in a browser can send to a service of its machine does nothing.
func TestService_TakesNoGet(t *testing.T) {
	t.Parallel()
	r := start(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.address+
		"/stint.v1.TaskService/GetStats?encoding=json&message=%7B%7D", http.NoBody)
	wantErr(t, "NewRequest", err, nil)
	response, err := http.DefaultClient.Do(request)
	wantErr(t, "Do", err, nil)
	defer response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET = %s", response.Status)
	}
}

// The same task many times makes no answer without end, and bodies that no answer has are not read.
func TestService_ReadsNoBodiesThatItDoesNotSend(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	proxy := pgcut.New(t, testdb.New(t))
	pool := proxy.Pool(t, 4)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "New", err, nil)
	t.Cleanup(func() {
		wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil)
	})
	cluster := newCluster(t, map[string]string{"1": testdb.URL(pool)})
	address, stop := testservice.Start(t, pool, store,
		service.Options{Cluster: cluster, Shard: "1"})
	r := &running{store: store, pool: pool, address: address, stop: stop}
	wantErr(t, "InsertTasks", store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "act", Body: make([]byte, 1<<20), PostResult: true},
	}), nil)
	_, err = cluster.Store(t.Context(), "1") // which reads the name of the shard
	wantErr(t, "Store", err, nil)
	var read atomic.Int32
	proxy.Hold(pgcut.AtRequest, func(request pgcut.Request) bool {
		if pgcut.Executes("get_tasks")(request) {
			read.Add(1)
		}
		return false
	})
	many := `{"ids":[` + strings.Repeat(`"a",`, 99) + `"a"]}`
	names := strings.NewReplacer("ids", "tasks", `"a"`, `{"shard":"1","id":"a"}`).Replace(many)
	for procedure, request := range map[string]string{
		"TaskService/GetTasks": many, "TaskService/WaitForTasks": many,
		"ClusterService/GetShardTasks": names,
	} {
		code, text := r.send(t, procedure, "application/json", strings.NewReader(request))
		if code != http.StatusBadRequest || !strings.Contains(string(text), "fewer") {
			t.Errorf("%s = %d %.300s", procedure, code, text)
		}
	}
	for _, wait := range []string{"0s", "0.001s", "1s"} {
		r.wantPosted(t, "TaskService/WaitForTasks", `{"ids":["a"],"wait":"`+wait+`"}`, `{}`)
	}
	r.wantPosted(t, "TaskService/Transact", `{"must_exist":["a","a"]}`, `{}`)
	code, answer := r.post(t, "TaskService/Transact", `{"must_exist":["b","a","b"]}`)
	if code != http.StatusNotFound || !strings.Contains(fmt.Sprint(answer), `"b"`) {
		t.Errorf("Transact = %d %v", code, answer)
	}
	if n := read.Load(); n > 0 {
		t.Errorf("bodies are read %d times", n)
	}
}

// An owner can read all inputs that fit a message one by one, and never takes some for all.
func TestGetInputs_GivesPagesOfWhatIsTooLargeForAnAnswer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := start(t)
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "act", PostResult: true},
		{ID: "b", Action: "act", PostResult: true},
		{ID: "z", Action: "act", After: []stint.TaskID{"a", "b"}},
	}), nil)
	var owned []stint.OwnedTask
	for range 3 {
		task, err := r.store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
		if err != nil || len(task) != 1 {
			t.Fatalf("OwnTasks = %v, %v", task, err)
		}
		if owned = task; task[0].ID != "z" {
			_, err := r.store.ReturnTasks(t.Context(), []stint.Return{{
				ID: task[0].ID, Token: task[0].Token, Code: stint.StatusCompleted,
				Result: make([]byte, 40<<20),
			}})
			wantErr(t, "ReturnTasks", err, nil)
		}
	}
	ask := fmt.Sprintf(`{"id":"z","token":"%v"`, owned[0].Token)
	code, answer := r.post(t, "WorkerService/GetInputs", ask+"}")
	if code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(answer), "paged") {
		t.Errorf("GetInputs = %d %.300s, want a refusal", code, fmt.Sprint(answer))
	}
	next := ""
	for _, last := range []bool{false, true} {
		code, answer := r.post(t, "WorkerService/GetInputs",
			ask+fmt.Sprintf(`,"paged":true,"after":%q}`, next))
		inputs, _ := answer["inputs"].([]any)
		next, _ = answer["next"].(string)
		if code != http.StatusOK || len(inputs) != 1 || last != (next == "") {
			t.Fatalf("GetInputs = %d with %d inputs, then %q", code, len(inputs), next)
		}
	}
}
