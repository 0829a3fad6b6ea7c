package shards_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/shards"
)

// exampleCluster returns a cluster of two shards, and what ends it.
func exampleCluster() (*shards.Cluster, func()) {
	urls := map[string]string{}
	var drops []func() error
	for _, name := range []string{"eu", "us"} {
		pool, drop, err := testdb.Open(context.Background())
		if err != nil {
			panic(err)
		}
		urls[name], drops = testdb.URL(pool), append(drops, drop)
	}
	topology, err := shards.Static(urls)
	if err != nil {
		panic(err)
	}
	cluster, err := shards.New(topology, shards.Options{})
	if err != nil {
		panic(err)
	}
	return cluster, func() {
		if err := cluster.Close(context.Background()); err != nil {
			panic(err)
		}
		for _, drop := range drops {
			if err := drop(); err != nil {
				panic(err)
			}
		}
	}
}

func ExampleCluster_InsertTasks() {
	ctx, stop := context.WithCancel(context.Background())
	cluster, end := exampleCluster()
	defer end()
	relay := make(chan error, 1)
	go func() { relay <- cluster.Run(ctx) }()
	err := cluster.InsertTasks(ctx, []shards.Task{
		{Shard: "eu", Task: stint.Task{ID: "save", Action: "save"}},
		{Shard: "us", Task: stint.Task{ID: "mail", Action: "mail"}, After: []shards.ID{
			{Shard: "eu", Task: "save"},
		}},
	})
	if err != nil {
		panic(err)
	}
	for _, next := range []shards.ID{{Shard: "eu", Task: "save"}, {Shard: "us", Task: "mail"}} {
		store, err := cluster.Store(ctx, next.Shard)
		if err != nil {
			panic(err)
		}
		action := []string{string(next.Task)}
		owned, err := store.WaitToOwnTasks(ctx, "worker", 1, action, time.Minute)
		if err != nil {
			panic(err)
		}
		inputs, err := store.Inputs(ctx, owned[0])
		if err != nil {
			panic(err)
		}
		fmt.Println("shard", next.Shard, "performs", owned[0].ID)
		for _, in := range inputs {
			if of, ok := shards.StandsFor(in.ID); ok {
				fmt.Printf("after %s, which left %q\n", of, in.Result)
			}
		}
		_, err = store.ReturnTasks(ctx, []stint.Return{{
			ID: owned[0].ID, Token: owned[0].Token, Code: stint.StatusCompleted,
			Result: []byte("a link"),
		}})
		if err != nil {
			panic(err)
		}
	}
	stop()
	if err := <-relay; err != nil {
		panic(err)
	}
	// Output:
	// shard eu performs save
	// shard us performs mail
	// after eu/save, which left "a link"
}

// exampleTasks inserts a task on eu and, on us, one that waits for it.
func exampleTasks(ctx context.Context, cluster *shards.Cluster) {
	err := cluster.InsertTasks(ctx, []shards.Task{
		{Shard: "eu", Task: stint.Task{ID: "save", Action: "save"}},
		{Shard: "us", Task: stint.Task{ID: "mail", Action: "mail"}, After: []shards.ID{
			{Shard: "eu", Task: "save"},
		}},
	})
	if err != nil {
		panic(err)
	}
}

func ExampleCluster_Graph() {
	ctx := context.Background()
	cluster, end := exampleCluster()
	defer end()
	exampleTasks(ctx, cluster)
	graph, err := cluster.Graph(ctx, shards.ID{Shard: "us", Task: "mail"})
	if err != nil {
		panic(err)
	}
	for _, task := range graph.Tasks {
		fmt.Println(task.Name(), "is", task.State)
	}
	for _, d := range graph.Dependencies {
		fmt.Println(d.Dependent, "waits for", d.Predecessor)
	}
	// Output:
	// us/mail is blocked
	// eu/save is ready
	// us/mail waits for eu/save
}

func ExampleCluster_Stats() {
	ctx := context.Background()
	cluster, end := exampleCluster()
	defer end()
	exampleTasks(ctx, cluster)
	stats, err := cluster.Stats(ctx)
	if err != nil {
		panic(err)
	}
	for _, one := range stats {
		if one.Err != nil {
			fmt.Println(one.Err)
		}
		for _, a := range one.Actions {
			if a.Action == "save" || a.Action == "mail" {
				fmt.Println(one.Shard, a.Action, a.Ready+a.Blocked)
			}
		}
	}
	// Output:
	// eu save 1
	// us mail 1
}

func ExampleCluster_ListTasks() {
	ctx := context.Background()
	cluster, end := exampleCluster()
	defer end()
	exampleTasks(ctx, cluster)
	filter := stint.Filter{Actions: []string{"save", "mail"}, Limit: 1}
	for {
		page, err := cluster.ListTasks(ctx, filter)
		if err != nil {
			panic(err)
		}
		for _, task := range page.Tasks {
			fmt.Println(task.Name())
		}
		for _, away := range page.Away {
			fmt.Println(away)
		}
		if filter.After = page.Next; page.Next == "" {
			break
		}
	}
	// Output:
	// eu/save
	// us/mail
}

func ExampleCluster_DeleteTasks() {
	ctx := context.Background()
	cluster, end := exampleCluster()
	defer end()
	exampleTasks(ctx, cluster)
	deleted, err := cluster.DeleteTasks(ctx, []shards.ID{{Shard: "eu", Task: "save"}})
	if err != nil {
		panic(err)
	}
	fmt.Println(deleted.Tasks)
	page, err := cluster.ListTasks(ctx, stint.Filter{Actions: []string{"save", "mail"}})
	if err != nil {
		panic(err)
	}
	fmt.Println(len(page.Tasks), "tasks are left") // mail waited for nothing else
	// Output:
	// [eu/save]
	// 0 tasks are left
}

func ExampleCluster_WaitForTasks() {
	ctx := context.Background()
	cluster, end := exampleCluster()
	defer end()
	ids := []shards.ID{{Shard: "eu", Task: "a"}, {Shard: "us", Task: "b"}}
	var tasks []shards.Task
	for _, id := range ids {
		tasks = append(tasks, shards.Task{Shard: id.Shard, Task: stint.Task{
			ID: id.Task, Action: stint.Spontaneous, PostResult: true,
		}})
	}
	if err := cluster.InsertTasks(ctx, tasks); err != nil {
		panic(err)
	}
	infos, err := cluster.WaitForTasks(ctx, ids)
	if err != nil {
		panic(err)
	}
	for i, info := range infos {
		fmt.Println(ids[i], "is", info.State)
	}
	// Output:
	// eu/a is completed
	// us/b is completed
}

func ExampleParseID() {
	id, err := shards.ParseID("eu/mail/7")
	if err != nil {
		panic(err)
	}
	fmt.Println(id.Shard, id.Task)
	// Output: eu mail/7
}
