package service

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
)

// Nobody makes a cursor that a service takes for one of its own.
func FuzzOpened(f *testing.F) {
	s := seal{key: bytes.Repeat([]byte{7}, 32)}
	ctx := context.WithValue(f.Context(), callerKey{}, caller{})
	own, err := s.sealed(ctx, "0/1/2/3")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(own))
	f.Add(sealMark)
	f.Add(sealMark + "AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		cursor := stint.Cursor(text)
		switch opened, err := s.opened(ctx, "after", cursor); {
		case err != nil || cursor == "":
		case opened != "0/1/2/3":
			t.Errorf("%q is opened as %q", text, opened)
		}
	})
}

// Whatever somebody sends as an answer, no field of it is passed over, and nothing panics.
func FuzzReadAnswer(f *testing.F) {
	f.Add("id=a", "application/json", []byte(`{"id":"a","code":"completed"}`))
	f.Add("", "application/x-www-form-urlencoded", []byte("id=a&key=b&result=c"))
	f.Add("a=%zz;b", "text/plain; charset", []byte("{"))
	f.Fuzz(func(t *testing.T, query, kind string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/answer", bytes.NewReader(body))
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", kind)
		answer, err := readAnswer(httptest.NewRecorder(), r)
		if err != nil && (answer.ID != "" || answer.Key != "") {
			t.Errorf("an answer is read as %+v and refused with %v", answer, err)
		}
	})
}

// Whatever bytes a message has, it is refused, or read into tasks as it is.
func FuzzMessages(f *testing.F) {
	whole, err := proto.Marshal(&stintv1.TransactRequest{
		Insert: []*stintv1.Task{{Id: "a", Action: "b", After: []string{"c"}, Priority: 1}},
		Return: []*stintv1.Return{{Id: "a", Code: "completed"}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte("\x0a\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		of := &stintv1.TransactRequest{}
		if (boundedBinary{}).Unmarshal(data, of) == nil {
			parts, err := newTransaction(of)
			if err == nil && (len(parts.insert) != len(of.GetInsert()) ||
				len(parts.returns) != len(of.GetReturn())) {
				t.Errorf("%q is read as %+v", data, parts)
			}
			namesIn(of, true)
		}
		schedules := &stintv1.PutSchedulesRequest{}
		if (boundedBinary{}).Unmarshal(data, schedules) == nil {
			_, _ = wire.ToSchedules(schedules.GetSchedules())
		}
		limits := &stintv1.SetLimitsRequest{}
		if (boundedBinary{}).Unmarshal(data, limits) == nil {
			wire.ToLimits(limits.GetLimits())
		}
		list := &stintv1.ListTasksRequest{}
		if (boundedBinary{}).Unmarshal(data, list) == nil {
			wire.ToFilter(list)
		}
	})
}
