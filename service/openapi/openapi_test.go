package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/openapi"
)

// The document, as far as the tests look at it.
type document struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		OperationID string
		Description string
		RequestBody struct {
			Content map[string]struct{ Schema reference }
		}
		Responses map[string]struct {
			Content map[string]struct{ Schema reference }
		}
	}
	Components struct {
		SecuritySchemes map[string]struct{ Type, Scheme string }
		Schemas         map[string]struct {
			Properties           map[string]any
			AdditionalProperties *bool
		}
	}
}

type reference struct {
	Ref string `json:"$ref"`
}

const schemas = "#/components/schemas/"

func fetch(t *testing.T) []byte {
	t.Helper()
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.json", nil)
	openapi.Handler().ServeHTTP(recorder, request)
	kind := recorder.Header().Get("Content-Type")
	if recorder.Code != http.StatusOK || kind != "application/json" {
		t.Fatalf("GET = %d %s", recorder.Code, kind)
	}
	return recorder.Body.Bytes()
}

func parse(t *testing.T) document {
	t.Helper()
	var d document
	if err := json.Unmarshal(fetch(t), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// unary calls look with each method that is no stream.
func unary(look func(path string, method protoreflect.MethodDescriptor)) {
	for _, service := range wire.Services() {
		for i := range service.Methods().Len() {
			method := service.Methods().Get(i)
			if !method.IsStreamingClient() && !method.IsStreamingServer() {
				look(fmt.Sprintf("/%s/%s", service.FullName(), method.Name()), method)
			}
		}
	}
}

func TestDocument_HasEveryCall(t *testing.T) {
	t.Parallel()
	d := parse(t)
	if d.OpenAPI != "3.1.0" || d.Components.SecuritySchemes["bearer"].Scheme != "bearer" {
		t.Errorf("OpenAPI %s with %v", d.OpenAPI, d.Components.SecuritySchemes)
	}
	calls := 0
	unary(func(path string, method protoreflect.MethodDescriptor) {
		calls++
		call := d.Paths[path]["post"]
		asks := call.RequestBody.Content["application/json"].Schema.Ref
		answers := call.Responses["200"].Content["application/json"].Schema.Ref
		if call.OperationID != string(method.Name()) ||
			asks != schemas+string(method.Input().FullName()) ||
			answers != schemas+string(method.Output().FullName()) {
			t.Errorf("%s: %s, %q, %q", path, call.OperationID, asks, answers)
		}
		if _, ok := call.Responses["default"]; !ok {
			t.Errorf("%s has no errors", path)
		}
		for message, request := range messages(method) {
			wantSchema(t, d, message, request)
		}
	})
	if len(d.Paths) != calls || calls < 20 {
		t.Errorf("%d paths, want %d", len(d.Paths), calls)
	}
	if call := d.Paths["/stint.v1.TaskService/AbortTasks"]["post"]; call.Description !=
		"Aborts tasks and what depends on them." {
		t.Errorf("AbortTasks: %q, want the comment", call.Description)
	}
}

// messages are those of a method, whatever their depth, and whether a request may have them.
func messages(method protoreflect.MethodDescriptor) map[protoreflect.MessageDescriptor]bool {
	found := map[protoreflect.MessageDescriptor]bool{}
	var add func(m protoreflect.MessageDescriptor, request bool)
	add = func(m protoreflect.MessageDescriptor, request bool) {
		known, ok := found[m]
		if m.ParentFile().Package() != "stint.v1" || m.IsMapEntry() || // an object of JSON
			ok && (known || !request) {
			return
		}
		found[m] = request
		for i := range m.Fields().Len() {
			if inner := m.Fields().Get(i).Message(); inner != nil {
				add(inner, request)
			}
		}
	}
	add(method.Input(), true)
	add(method.Output(), false)
	return found
}

// wantSchema checks that a schema has the fields of a message and no others, so that it is not an
// old one.
func wantSchema(t *testing.T, d document, m protoreflect.MessageDescriptor, request bool) {
	t.Helper()
	schema := d.Components.Schemas[string(m.FullName())]
	var fields []string
	for i := range m.Fields().Len() {
		fields = append(fields, string(m.Fields().Get(i).Name()))
	}
	slices.Sort(fields)
	if got := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, fields) {
		t.Errorf("%s has %q, want %q: run buf generate", m.FullName(), got, fields)
	}
	if closed := schema.AdditionalProperties; request && (closed == nil || *closed) {
		t.Errorf("%s is not closed, although a request has it", m.FullName())
	}
}

func TestDocument_ResolvesItsReferences(t *testing.T) {
	t.Parallel()
	var root any
	text := fetch(t)
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`"\$ref": "#/([^"]*)"`).FindAllStringSubmatch(string(text), -1)
	for _, ref := range found {
		at := root
		for name := range strings.SplitSeq(ref[1], "/") {
			inner, ok := at.(map[string]any)
			if at = inner[name]; !ok || at == nil {
				t.Errorf("%s leads nowhere", ref[1])
				break
			}
		}
	}
	if len(found) == 0 || len(found) != strings.Count(string(text), `"$ref"`) {
		t.Errorf("found %d references", len(found))
	}
}

// schemaOf compiles the schema of a message, also for what is inside of texts.
func schemaOf(t *testing.T, name protoreflect.FullName) *jsonschema.Schema {
	t.Helper()
	text, err := jsonschema.UnmarshalJSON(bytes.NewReader(fetch(t)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	compiler.AssertContent()
	if err := compiler.AddResource("https://stint/openapi.json", text); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("https://stint/openapi.json" + schemas + string(name))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func check(schema *jsonschema.Schema, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// Every message with every field set, in the JSON of the service, agrees with its schema, and so
// does one with none. One with a field that does not exist, or two of a oneof, does not.
func TestSchemas_DescribeTheJSONOfTheMessages(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	seen := map[protoreflect.FullName]bool{}
	unary(func(_ string, method protoreflect.MethodDescriptor) {
		for m, request := range messages(method) {
			if seen[m.FullName()] {
				continue
			}
			seen[m.FullName()] = true
			schema := schemaOf(t, m.FullName())
			for _, which := range []int{0, 1} { // of a oneof
				text := toJSON(t, filled(m, which, 3))
				if err := check(schema, text); err != nil {
					t.Errorf("%s: %s: %v", m.FullName(), text, err)
				}
			}
			if err := check(schema, []byte("{}")); err != nil {
				t.Errorf("%s: {}: %v", m.FullName(), err)
			}
			if err := check(schema, []byte(`{"max_trys":3}`)); request && err == nil {
				t.Errorf("%s accepts a field that does not exist", m.FullName())
			}
		}
	})
	task := schemaOf(t, "stint.v1.Task")
	for text, good := range map[string]bool{
		`{"action":"a","text":"b"}`:                          true,
		`{"action":"a","body":"Yg==","text":"b"}`:            false,
		`{"action":"a","body":"?"}`:                          false,
		`{"action":"a","max_tries":"3"}`:                     false,
		`{"action":"a","not_before":"tomorrow"}`:             false,
		`{"action":"a","after":["b"],"priority":-1}`:         true,
		`{"action":"a","after":"b"}`:                         false,
		`{"action":"a","headers":{"name":"b"}}`:              true,
		`{"action":"a","headers":{"name":1}}`:                false,
		`{"action":"a","on_abort":true}`:                     false,
		`{"action":"a","deadline":"2026-01-02T03:04:05.6Z"}`: true,
	} {
		if err := check(task, []byte(text)); (err == nil) != good {
			t.Errorf("%s: %v, want good = %v", text, err, good)
		}
	}
	if len(seen) < 40 {
		t.Errorf("%d messages, want more", len(seen))
	}
}

func toJSON(t *testing.T, message proto.Message) []byte {
	t.Helper()
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// filled is a message with all fields set, to a depth, and with one field of each oneof.
func filled(m protoreflect.MessageDescriptor, which, depth int) *dynamicpb.Message {
	message := dynamicpb.NewMessage(m)
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		one := field.ContainingOneof()
		if one != nil && !one.IsSynthetic() && one.Fields().Get(which) != field ||
			field.Message() != nil && depth == 0 {
			continue
		}
		switch {
		case field.IsMap():
			message.Mutable(field).Map().Set(protoreflect.ValueOfString("name").MapKey(),
				value(field.MapValue(), which, depth))
		case field.IsList():
			list := message.Mutable(field).List()
			list.Append(value(field, which, depth))
			list.Append(value(field, which, depth))
		default:
			message.Set(field, value(field, which, depth))
		}
	}
	return message
}

func value(field protoreflect.FieldDescriptor, which, depth int) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("text")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0xff, 0, 'x'})
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0.5)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(-1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(-1 << 63)
	case protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(1<<64 - 1)
	default:
	}
	switch field.Message().FullName() {
	case "google.protobuf.Duration":
		return protoreflect.ValueOfMessage((&durationpb.Duration{
			Seconds: -1, Nanos: -500_000_000,
		}).ProtoReflect())
	case "google.protobuf.Timestamp":
		return protoreflect.ValueOfMessage((&timestamppb.Timestamp{
			Seconds: 1_800_000_000, Nanos: 1000,
		}).ProtoReflect())
	}
	return protoreflect.ValueOfMessage(filled(field.Message(), which, depth-1))
}

func TestHandler_IsReadAndKept(t *testing.T) {
	t.Parallel()
	answer := func(method, tag string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), method, "/openapi.json", nil)
		request.Header.Set("If-None-Match", tag)
		openapi.Handler().ServeHTTP(recorder, request)
		return recorder
	}
	tag := answer(http.MethodGet, "").Header().Get("ETag")
	if got := answer(http.MethodGet, tag); tag == "" || got.Code != http.StatusNotModified {
		t.Errorf("GET of %s = %d, want 304", tag, got.Code)
	}
	if got := answer(http.MethodHead, ""); got.Code != http.StatusOK || got.Body.Len() > 0 {
		t.Errorf("HEAD = %d with %d bytes, want 200 with none", got.Code, got.Body.Len())
	}
	if got := answer(http.MethodPost, ""); got.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST = %d, want 405", got.Code)
	}
}
