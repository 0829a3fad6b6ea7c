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
		ids[i] = ToName(name)
	}
	return ids
}

// ToName is [ToNames] for one task.
func ToName(name *stintv1.TaskName) shards.ID {
	return shards.ID{Shard: name.GetShard(), Task: stint.TaskID(name.GetId())}
}

// FromShardConditions returns conditions about tasks of shards as messages.
func FromShardConditions(conditions []shards.Condition) (messages []*stintv1.ShardCondition) {
	for _, c := range conditions {
		messages = append(messages, &stintv1.ShardCondition{
			After:     FromNames([]shards.ID{c.After})[0],
			Condition: FromCondition(&stint.Condition{States: c.States, Results: c.Results}),
		})
	}
	return messages
}

// ToShardConditions undoes [FromShardConditions].
func ToShardConditions(messages []*stintv1.ShardCondition) (conditions []shards.Condition) {
	for _, m := range messages {
		c := ToCondition(m.GetCondition())
		conditions = append(conditions, shards.Condition{
			After: ToName(m.GetAfter()), States: c.States, Results: c.Results,
		})
	}
	return conditions
}
