package service

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// Lists and maps within lists are counted before they are read, too: those of names, of conditions,
// of what these are about, and of tasks of schedules.
func TestBoundedBinary_CountsListsWithinLists(t *testing.T) {
	t.Parallel()
	empty := func(n int) []*stintv1.Condition {
		conditions := make([]*stintv1.Condition, n)
		for i := range conditions {
			conditions[i] = &stintv1.Condition{}
		}
		return conditions
	}
	headers := map[string]string{}
	for i := range itemsMax + 1 {
		headers[strconv.Itoa(i)] = ""
	}
	texts := make([]string, itemsMax+1)
	const half = itemsMax / 2
	for name, c := range map[string]struct {
		message proto.Message
		want    error
	}{
		"many conditions": {&stintv1.InsertTasksRequest{Tasks: []*stintv1.Task{
			{When: empty(half)}, {WhenAny: empty(half)},
		}}, nil},
		"more": {&stintv1.InsertTasksRequest{Tasks: []*stintv1.Task{
			{When: empty(half)}, {WhenAny: empty(half + 1)},
		}}, stint.ErrTooLarge},
		"of tasks of schedules": {&stintv1.PutSchedulesRequest{Schedules: []*stintv1.Schedule{{
			Tasks: []*stintv1.Task{{When: empty(itemsMax)}},
		}}}, stint.ErrTooLarge},
		"many names": {&stintv1.InsertTasksRequest{Tasks: []*stintv1.Task{
			{After: texts[:half]}, {ToSignalAfter: texts[:half]},
		}}, nil},
		"more names": {&stintv1.InsertTasksRequest{Tasks: []*stintv1.Task{
			{After: texts[:half]}, {ToSignalAfter: texts[:half+1]},
		}}, stint.ErrTooLarge},
		"all of one task": {
			&stintv1.InsertTasksRequest{Tasks: []*stintv1.Task{{After: texts}}}, stint.ErrTooLarge,
		},
		"of conditions": {&stintv1.InsertTasksRequest{Tasks: []*stintv1.Task{{
			When: []*stintv1.Condition{{States: texts[:half], Results: texts[:half]}},
		}}}, stint.ErrTooLarge},
		"many long names": {&stintv1.InsertTasksRequest{Tasks: []*stintv1.Task{
			{After: slices.Repeat([]string{"00000000-0000-0000-0000-000000000000"}, itemsMax+1)},
		}}, nil},
		"headers": {&stintv1.InsertTasksRequest{Tasks: []*stintv1.Task{
			{Headers: headers},
		}}, stint.ErrTooLarge},
	} {
		data, err := proto.Marshal(c.message)
		if err != nil {
			t.Fatal(err)
		}
		into := c.message.ProtoReflect().New().Interface()
		if err := (boundedBinary{}).Unmarshal(data, into); !errors.Is(err, c.want) {
			t.Errorf("%s: Unmarshal = %v, want %v", name, err, c.want)
		} else if err == nil && !proto.Equal(into, c.message) {
			t.Errorf("%s: Unmarshal reads something else", name)
		}
		for cut := range min(len(data), 20) {
			if err := (boundedBinary{}).Unmarshal(data[:cut+1], into); err == nil && cut < 3 {
				t.Errorf("%s: the first %d bytes are a message", name, cut+1)
			}
		}
	}
}

// A field that a message does not have is refused wherever it stands, as it is in JSON: the filter
// of a client that is newer than the service would otherwise pick every task.
//
// Proves G327.
func TestBoundedBinary_RefusesUnknownFields(t *testing.T) {
	t.Parallel()
	unknown := protowire.AppendTag(nil, 5000, protowire.VarintType)
	unknown = protowire.AppendVarint(unknown, 1)
	outside := &stintv1.ListTasksRequest{Actions: []string{"mail"}}
	outside.ProtoReflect().SetUnknown(unknown)
	inside := &stintv1.InsertTasksRequest{Tasks: []*stintv1.Task{{Action: "mail"}}}
	inside.Tasks[0].ProtoReflect().SetUnknown(unknown)
	for name, message := range map[string]proto.Message{"outside": outside, "inside": inside} {
		data, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		err = (boundedBinary{}).Unmarshal(data, message.ProtoReflect().New().Interface())
		if err == nil || !strings.Contains(err.Error(), "no field 5000") {
			t.Errorf("%s: Unmarshal = %v, want the field that is unknown", name, err)
		}
	}
}
