package structures_test

import (
	"errors"
	"fmt"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/structures"
)

func ExampleBuild() {
	copyFile := structures.Task{Action: "copy"}
	plan, err := structures.Build("export", structures.Group(copyFile, copyFile))
	if err != nil {
		panic(err)
	}
	for _, task := range plan.Tasks {
		fmt.Println(task.ID, task.Action, task.After)
	}
	fmt.Println("to wait for:", plan.End)
	fmt.Println("to cancel:", plan.IDs())
	// Output:
	// export/0 copy []
	// export/1 copy []
	// export/end stint.Spontaneous [export/0 export/1]
	// to wait for: export/end
	// to cancel: [export/0 export/1 export/end]
}

func ExampleChain() {
	plan, err := structures.Build("release", structures.Chain(
		structures.Task{Action: "test"},
		structures.Group(
			structures.Task{Action: "upload-linux"},
			structures.Task{Action: "upload-macos"},
		),
		structures.Task{Action: "announce"},
	))
	if err != nil {
		panic(err)
	}
	for _, task := range plan.Tasks {
		fmt.Println(task.ID, task.Action, task.After)
	}
	// Output:
	// release/0 test []
	// release/1 upload-linux [release/0]
	// release/2 upload-macos [release/0]
	// release/end announce [release/1 release/2]
}

func ExampleGroup() {
	plan, err := structures.Build("deploy", structures.Group(
		structures.Chain(
			structures.Task{ID: "deploy/build", Action: "build"},
			structures.Task{ID: "deploy/install", Action: "install"},
		),
		structures.Task{ID: "deploy/notify", Action: "notify"},
	))
	if err != nil {
		panic(err)
	}
	for _, task := range plan.Tasks {
		fmt.Println(task.ID, task.Action, task.After)
	}
	// Output:
	// deploy/build build []
	// deploy/install install [deploy/build]
	// deploy/notify notify []
	// deploy/end stint.Spontaneous [deploy/install deploy/notify]
}

func ExampleChord() {
	plan, err := structures.Build("report", structures.Chord(
		structures.Task{Action: "summarise"},
		structures.Task{Action: "count", Body: []byte("north")},
		structures.Task{Action: "count", Body: []byte("south")},
	))
	if err != nil {
		panic(err)
	}
	for _, task := range plan.Tasks {
		fmt.Printf("%s %s(%s) %s\n", task.ID, task.Action, task.Body, task.After)
	}
	// Output:
	// report/0 count(north) []
	// report/1 count(south) []
	// report/end summarise() [report/0 report/1]
}

func ExampleFailFast() {
	plan, err := structures.Build("trip", structures.FailFast(structures.Group(
		structures.Task{Action: "book flight"},
		structures.Task{Action: "book hotel"},
	)))
	if err != nil {
		panic(err)
	}
	for _, task := range plan.Tasks {
		fmt.Println(task.ID, task.Action, task.After, task.FailFast)
	}
	// Output:
	// trip/0 book flight [] false
	// trip/1 book hotel [] false
	// trip/end stint.Spontaneous [trip/0 trip/1] true
}

func ExampleMap() {
	files := []string{"a.txt", "b.txt"}
	plan, err := structures.Build("index", structures.Chord(
		structures.Task{Action: "publish"},
		structures.Map(files, func(file string) structures.Structure {
			return structures.Chain(
				structures.Task{Action: "fetch", Body: []byte(file)},
				structures.Task{Action: "index", Body: []byte(file)},
			)
		}),
	))
	if err != nil {
		panic(err)
	}
	for _, task := range plan.Tasks {
		fmt.Printf("%s %s(%s) %s\n", task.ID, task.Action, task.Body, task.After)
	}
	// Output:
	// index/0 fetch(a.txt) []
	// index/1 index(a.txt) [index/0]
	// index/2 fetch(b.txt) []
	// index/3 index(b.txt) [index/2]
	// index/end publish() [index/1 index/3]
}

func ExampleNetwork() {
	plan, err := structures.Build("build", structures.Network(
		structures.Node{
			Name: "link", Run: structures.Task{Action: "link"},
			After: []string{"objects", "libraries"},
		},
		structures.Node{
			Name: "objects", After: []string{"headers"},
			Run: structures.Group(
				structures.Task{Action: "compile", Body: []byte("a.c")},
				structures.Task{Action: "compile", Body: []byte("b.c")},
			),
		},
		structures.Node{Name: "libraries", Run: structures.Task{Action: "fetch"}},
		structures.Node{Name: "headers", Run: structures.Task{Action: "generate"}},
	))
	if err != nil {
		panic(err)
	}
	for _, task := range plan.Tasks {
		fmt.Println(task.ID, task.Action, task.After)
	}
	fmt.Println("objects:", plan.Nodes["objects"])
	// Output:
	// build/0 generate []
	// build/1 compile [build/0]
	// build/2 compile [build/0]
	// build/3 fetch []
	// build/end link [build/1 build/2 build/3]
	// objects: [build/1 build/2]
}

// The release is published if the tests passed or were not needed, and nobody objected.
func ExampleWhen() {
	tasks, err := structures.When(stint.Task{ID: "publish", Action: "publish"}, structures.All(
		structures.Any(structures.Ended("test"), structures.Returned("review", "trivial")),
		structures.Not(structures.Ended("object")),
	))
	if err != nil {
		panic(err)
	}
	for _, task := range tasks {
		fmt.Println(task.ID, task.Action, task.When, task.WhenAny)
	}
	// Output:
	// publish/when/0 stint.Spontaneous [] [{test [completed] []} {review [] [trivial]}]
	// publish publish [{publish/when/0 [] []} {object [aborted skipped] []}] []
}

func ExampleShapeError() {
	_, err := structures.Build("report", structures.Network(
		structures.Node{Name: "egg", Run: structures.Task{Action: "lay"}, After: []string{"hen"}},
		structures.Node{Name: "hen", Run: structures.Task{Action: "hatch"}, After: []string{"egg"}},
	))
	var shape *structures.ShapeError
	if errors.As(err, &shape) {
		fmt.Println(errors.Is(err, structures.ErrCycle), shape.Names)
	}
	fmt.Println(err)
	// Output:
	// true [egg hen egg]
	// build structure: cycle: "egg" -> "hen" -> "egg"
}
