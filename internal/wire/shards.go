package wire

import (
	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/shards"
)

// FromNames returns the IDs of tasks of shards as messages.
func FromNames(ids []shards.ID) []*stintv1.TaskName {
	names := make([]*stintv1.TaskName, len(ids))
	for i, id := range ids {
		names[i] = &stintv1.TaskName{Shard: id.Shard, Id: string(id.Task)}
	}
	return names
}

// ToNames undoes [FromNames].
func ToNames(names []*stintv1.TaskName) []shards.ID {
	ids := make([]shards.ID, len(names))
	for i, name := range names {
		ids[i] = shards.ID{Shard: name.GetShard(), Task: stint.TaskID(name.GetId())}
	}
	return ids
}
