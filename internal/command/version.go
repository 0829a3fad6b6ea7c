package command

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/migrations"
)

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version of stint this is",
		Long: `Say which version of stint this is, the commit that it was built from if the build
tells, the version of Go that built it, and the newest version of the schema that it
knows (stint migrate status says which one a database has).

With --json: version, commit (left out if the build does not tell), modified (true if the
source differed from the commit), go, schema.`,
		Example: `  stint version
  stint version --json | jq -r .version`,
		GroupID:           groupOperations,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo()
			return p.printVersion(newVersion(info))
		},
	}
}

type versionJSON struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Schema   int32  `json:"schema"`
}

// newVersion reads what the build tells of itself, which may be nothing.
func newVersion(info *debug.BuildInfo) versionJSON {
	v := versionJSON{Version: "(unknown)", Go: "(unknown)", Schema: migrations.Version()}
	if info == nil {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	v.Go = info.GoVersion
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

func (p *program) printVersion(v versionJSON) error {
	if p.json {
		return p.printJSON(v)
	}
	text := "stint " + v.Version
	if v.Commit != "" {
		text += "\ncommit " + v.Commit
		if v.Modified {
			text += ", modified"
		}
	}
	return p.printf("%s\n%s\nschema version %d\n", text, v.Go, v.Schema)
}
