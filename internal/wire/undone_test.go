package wire_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/wire"
)

// A message keeps every field of what it is made from: one that a conversion forgets is found here,
// without a line of this test. A filter that lacked one would pick more tasks than were meant.
func TestTo_UndoesFromWithEveryField(t *testing.T) {
	t.Parallel()
	undone(t, func(task stint.Task) (stint.Task, error) {
		return wire.ToTask(wire.FromTask(&task))
	})
	undone(t, func(info stint.TaskInfo) (stint.TaskInfo, error) {
		return wire.ToInfo(wire.FromInfo(&info, false)), nil
	})
	undone(t, func(owned stint.OwnedTask) (stint.OwnedTask, error) {
		all, err := wire.ToOwned(wire.FromOwned([]stint.OwnedTask{owned}, false))
		return first(all), err
	})
	undone(t, func(filter stint.Filter) (stint.Filter, error) {
		return wire.ToFilter(wire.FromFilter(filter)), nil
	})
	undone(t, func(limits stint.Limits) (stint.Limits, error) {
		return wire.ToLimits(wire.FromLimits(limits)), nil
	})
	undone(t, func(schedule stint.Schedule) (stint.Schedule, error) {
		all, err := wire.ToSchedules(wire.FromSchedules([]stint.Schedule{schedule}))
		return first(all), err
	})
	undone(t, func(returned stint.Return) (stint.Return, error) {
		all, err := wire.ToReturns(wire.FromReturns([]stint.Return{returned}))
		return first(all), err
	})
	undone(t, func(affected stint.Affected) (stint.Affected, error) {
		return wire.ToAffected(wire.FromAffected(affected)), nil
	})
	undone(t, func(history stint.History) (stint.History, error) {
		return wire.ToHistory(wire.FromHistory(history)), nil
	})
	undone(t, func(why stint.TaskLimits) (stint.TaskLimits, error) {
		return *wire.ToTaskLimits(wire.FromTaskLimits(&why)), nil
	})
	undone(t, func(input stint.Input) (stint.Input, error) {
		return first(wire.ToInputs(wire.FromInputs([]stint.Input{input}, false))), nil
	})
	undone(t, func(answer stint.Answer) (stint.Answer, error) {
		return first(wire.ToAnswers(wire.FromAnswers([]stint.Answer{answer}))), nil
	})
}

func first[T any](all []T) (one T) {
	if len(all) > 0 {
		one = all[0]
	}
	return one
}

// undone compares a value with all fields set with what a message of it gives back.
func undone[T any](t *testing.T, again func(T) (T, error)) {
	t.Helper()
	var want T
	fill(t, reflect.ValueOf(&want).Elem(), "")
	got, err := again(want)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%T comes back as\n%+v, %v\nwant\n%+v", want, got, err, want)
	}
}

// fill sets all fields of a value to what is not zero, and differs from what the others of its type
// have as far as that may be.
func fill(t *testing.T, value reflect.Value, name string) {
	t.Helper()
	switch value.Interface().(type) {
	case time.Time:
		value.Set(reflect.ValueOf(time.Unix(int64(len(name))+1, 1000).UTC()))
		return
	case stint.Token:
		token, err := stint.ParseToken("01234567-89ab-cdef-0123-456789abcdef")
		if err != nil {
			t.Fatal(err)
		}
		value.Set(reflect.ValueOf(token))
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString("a " + name)
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(int64(len(name)) + 1)
	case reflect.Int16, reflect.Int8, reflect.Uint8:
		value.Set(reflect.ValueOf(1).Convert(value.Type())) // a word has this number
	case reflect.Float64:
		value.SetFloat(0.5)
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(t, value.Index(0), name)
	case reflect.Map:
		key, of := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		fill(t, key, name)
		fill(t, of, name)
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(key, of)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(t, value.Elem(), name)
	case reflect.Struct:
		for i := range value.NumField() {
			if field := value.Type().Field(i); field.IsExported() {
				fill(t, value.Field(i), field.Name)
			}
		}
	default:
		t.Fatalf("%s: this test does not know the kind %s", name, value.Kind())
	}
}
