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

func ExampleParseID() {
	id, err := shards.ParseID("eu/mail/7")
	if err != nil {
		panic(err)
	}
	fmt.Println(id.Shard, id.Task)
	// Output: eu mail/7
}
