// Command manual writes the man pages and the shell completions of stint:
//
//	go run . VERSION DATE DIR
//
// DATE has the form 2026-11-30. It is a module of its own, so that stint does not depend on what
// makes man pages.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/stint-tasks/stint/cmd/stint/internal/command"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: manual VERSION DATE DIR")
		os.Exit(2)
	}
	if err := write(command.Tree(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

// write writes man/stint.1, a page for each sub-command and topic, and completions/.
func write(root *cobra.Command, version, date, dir string) error {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return err
	}
	for name, generate := range map[string]func(io.Writer) error{
		"completions/stint.bash": func(w io.Writer) error {
			return root.GenBashCompletionV2(w, true)
		},
		"completions/_stint": root.GenZshCompletion,
		"completions/stint.fish": func(w io.Writer) error {
			return root.GenFishCompletion(w, true)
		},
	} {
		if err := writeFile(filepath.Join(dir, name), generate); err != nil {
			return err
		}
	}
	return writePages(root, doc.GenManHeader{
		Section: "1", Date: &day, Source: "stint " + version, Manual: "Stint",
	}, filepath.Join(dir, "man"))
}

func writePages(cmd *cobra.Command, header doc.GenManHeader, dir string) error {
	for _, sub := range cmd.Commands() {
		if sub.Hidden {
			continue
		}
		if err := writePages(sub, header, dir); err != nil {
			return err
		}
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	header.Title = strings.ToUpper(name)
	cmd.DisableAutoGenTag = true
	cmd.Long = markdown(cmd.Long)
	return writeFile(filepath.Join(dir, name+".1"), func(w io.Writer) error {
		return doc.GenMan(cmd, &header, w)
	})
}

func writeFile(path string, generate func(io.Writer) error) error {
	//nolint:gosec // the caller has named the directory
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	file, err := os.Create(path) //nolint:gosec // as above
	if err != nil {
		return err
	}
	err = generate(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// markdown returns a help text in the form that package doc expects: lines that are indented keep
// their form, and no character of the others stands for something else.
func markdown(text string) string {
	plain := strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`)
	var b strings.Builder
	within := false // in a block of lines that are indented
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, " ")
		if indented != within && strings.TrimSpace(line) != "" {
			b.WriteString("\n```\n")
			if !indented {
				b.WriteString("\n")
			}
			within = indented
		}
		if within {
			b.WriteString(line)
		} else {
			b.WriteString(plain.Replace(line))
		}
	}
	if within {
		b.WriteString("\n```\n")
	}
	return b.String()
}
