package command

import (
	"bytes"
	"runtime/debug"
	"testing"

	"github.com/stint-tasks/stint/migrations"
)

func TestVersion_SaysWhatTheBuildTells(t *testing.T) {
	t.Parallel()
	schema := migrations.Version()
	build := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.1.0"}}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123abc"}
	modified := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	whole := *build
	whole.Settings = []debug.BuildSetting{revision, modified}
	for _, test := range []struct {
		info *debug.BuildInfo
		want versionJSON
	}{
		{nil, versionJSON{Version: "(unknown)", Go: "(unknown)", Schema: schema}},
		{build, versionJSON{Version: "v0.1.0", Go: "go1.26.0", Schema: schema}},
		{&whole, versionJSON{"v0.1.0", "0123abc", true, "go1.26.0", schema, ""}},
	} {
		if got := newVersion(test.info); got != test.want {
			t.Errorf("%+v is version %+v, want %+v", test.info, got, test.want)
		}
	}
	var stdout bytes.Buffer
	p := &program{stdout: &stdout}
	shown := versionJSON{"v0.1.0", "0123abc", true, "go1.26.0", 7, "v0.2.0"}
	if err := p.printVersion(shown); err != nil {
		t.Fatal(err)
	}
	want := "stint v0.1.0\ncommit 0123abc, modified\ngo1.26.0\nschema version 7\n" +
		"the service is stint v0.2.0\n"
	if got := stdout.String(); got != want {
		t.Errorf("version printed %q, want %q", got, want)
	}
}
