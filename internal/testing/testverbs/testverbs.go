// Package testverbs calls verbs by their signatures, so that tests of what all of them have in
// common need not name each.
package testverbs

import (
	"context"
	"reflect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/verbs"
)

// Changes are the verbs of [verbs.Changer] by their names. What they take besides IDs is the same
// in each call: a parameter of another type needs a value here.
func Changes(
	ctx context.Context, of verbs.Changer,
) map[string]func(ids []stint.TaskID) (stint.Affected, error) {
	given := map[reflect.Type]reflect.Value{}
	for _, value := range []any{"why", stint.TaskChanges{Priority: new(int16(1))}} {
		given[reflect.TypeOf(value)] = reflect.ValueOf(value)
	}
	all := map[string]func([]stint.TaskID) (stint.Affected, error){}
	changer := reflect.TypeFor[verbs.Changer]()
	for i := range changer.NumMethod() {
		name := changer.Method(i).Name
		verb := reflect.ValueOf(of).MethodByName(name)
		all[name] = func(ids []stint.TaskID) (stint.Affected, error) {
			args := []reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(ids)}
			for k := len(args); k < verb.Type().NumIn(); k++ {
				args = append(args, given[verb.Type().In(k)])
			}
			results := verb.Call(args)
			affected, _ := results[0].Interface().(stint.Affected)
			err, _ := results[1].Interface().(error)
			return affected, err
		}
	}
	return all
}
