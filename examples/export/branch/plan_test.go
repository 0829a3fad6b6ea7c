package branch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
)

func TestPlanExport_MakesATaskForEachDifference(t *testing.T) {
	t.Parallel()
	tree := Tree{
		"same": {1, "s"}, "other": {2, "new"}, "a/new": {3, "n"}, "a/b/c/deep": {4, "d"},
		"no/_SUCCESS": {5, "an object"},
	}
	found := map[string]string{
		"same": "s", "other": "old", "a/gone": "g", "a/_SUCCESS": "of another commit",
		"was/_SUCCESS": "of a prefix that was configured once",
	}
	export := body{Branch: "main", Export: 7, Commit: 9}
	plan := planExport(export, tree, found, []string{"a/b", "a"})
	after := map[stint.TaskID][]stint.TaskID{}
	for _, task := range plan {
		after[task.ID] = append(slices.Clone(task.After), task.ToSignalAfter...)
	}
	done := doneID("main")
	want := map[stint.TaskID][]stint.TaskID{
		"copy-main/7/other":          {done},
		"copy-main/7/a/new":          {done},
		"copy-main/7/a/b/c/deep":     {done},
		"copy-main/7/no/_SUCCESS":    {done},
		"delete-main/7/a/gone":       {done},
		"delete-main/7/was/_SUCCESS": {done},
		"success-main/7/a/b":         {"copy-main/7/a/b/c/deep", done},
		"success-main/7/a": {
			"copy-main/7/a/new", "delete-main/7/a/gone", "success-main/7/a/b", done,
		},
		"manifest-main/7/": {done},
	}
	if !maps.EqualFunc(after, want, slices.Equal) {
		t.Errorf("planExport = %v\nwant %v", after, want)
	}
}

func TestObjectID_IsValidAndUnique(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 600)
	seen := map[stint.TaskID]string{}
	for _, path := range []string{"a", "a/b", "caf\xe9", "caf\xe8", long, long + "y"} {
		for _, branch := range []string{"main", "main-2"} {
			id := objectID(actionCopy, body{Branch: branch, Export: 1, Path: path})
			if other, ok := seen[id]; ok {
				t.Errorf("objectID of %q = %q, like that of %q", path, id, other)
			}
			if len(id) > 512 || !utf8.ValidString(string(id)) {
				t.Errorf("objectID of %q = %q, want valid UTF-8 of at most 512 bytes", path, id)
			}
			seen[id] = path
		}
	}
}

func TestReadTree_TakesAFewSmallFiles(t *testing.T) {
	t.Parallel()
	dir := fstest.MapFS{
		"top": {Data: []byte("1")}, "a/b/c/deep": {}, "large": {Data: make([]byte, 1<<20)},
	}
	tree, prefixes, err := ReadTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range tree {
		if file.Content == nil {
			t.Errorf("%s has no content, which would delete it", file.Path)
		}
		names = append(names, file.Path)
	}
	if want := []string{"a/b/c/deep", "top"}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	if want := []string{"a", "a/b"}; !slices.Equal(prefixes, want) {
		t.Errorf("prefixes %q, want %q", prefixes, want)
	}
	for n := range 100 {
		dir[fmt.Sprintf("many/%d", n)] = &fstest.MapFile{}
	}
	if tree, _, err := ReadTree(dir); err != nil || len(tree) != 50 {
		t.Errorf("ReadTree of many = %d files, %v; want 50", len(tree), err)
	}
}
