package pg

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/sqlfile"
)

// Statements are the statements of a package, in files of SQL beside its Go. Each begins with a
// line that names it; those of one verb that are short share a file.
type Statements struct {
	// read finds them as they are for the schema "stint".
	read func() (set, error)
}

// NewStatements returns the statements of a folder, with their variants.
func NewStatements(files fs.FS) *Statements {
	return &Statements{sync.OnceValues(func() (set, error) {
		return readStatements(files)
	})}
}

func readStatements(files fs.FS) (set, error) {
	statements := set{}
	add := func(name string, text func() string) {
		statements[name] = sync.OnceValue(func() statement {
			text := sqlfile.Statement(text())
			return statement{sqlfile.InFull(text), writePattern.MatchString(text)}
		})
	}
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		read, err := fs.ReadFile(files, file)
		texts := sqlfile.Split(string(read))
		if err != nil || len(texts) == 0 {
			return fmt.Errorf("the statements in %s: %w", file, cmp.Or(err, errUnnamed))
		}
		for name, text := range texts {
			if _, ok := statements[name]; ok {
				return fmt.Errorf("two files have a statement %q", name)
			}
			add(name, func() string { return text })
			for _, variant := range sqlfile.Variants(text) {
				add(variant, func() string { return sqlfile.Variant(text, variant) })
			}
		}
		return nil
	})
	return statements, err
}

var errUnnamed = errors.New("the first line names none")

//go:embed sql/*.sql
var files embed.FS

// own are the statements of this package.
//
//nolint:gochecknoglobals // never changes
var own = NewStatements(files)

// A set holds statements for a schema, by their names. To prepare the text of all takes a tenth of
// a second, so each is prepared when it is first needed.
type set map[string]func() statement

// get returns a statement, or nothing if there is none of the name.
func (s set) get(name string) statement {
	if prepared, ok := s[name]; ok {
		return prepared()
	}
	return statement{}
}

type statement struct {
	text string
	// writes says that a read-only transaction may not execute it.
	writes bool
}

// writePattern finds what a read-only transaction may not do.
var writePattern = regexp.MustCompile(`\b(INSERT|UPDATE|DELETE|SHARE|nextval)\b`)

// load returns the statements for the schema of a config.
func load(config Config) (set, error) {
	qualifier := pgx.Identifier{config.Schema}.Sanitize() + "."
	replacements := []string{"LISTEN stint", "LISTEN " + strings.TrimSuffix(qualifier, ".")}
	for _, literal := range config.Literals {
		replacements = append(replacements, "'"+literal+"'", "'"+literal+"'")
	}
	qualify := strings.NewReplacer(append(replacements,
		"'stint.", "'"+strings.ReplaceAll(qualifier, "'", "''"),
		"stint.", qualifier)...)
	loaded := set{}
	for _, statements := range append([]*Statements{own}, config.Statements...) {
		read, err := statements.read()
		if err != nil {
			return nil, err
		}
		for name, one := range read {
			if _, ok := loaded[name]; ok {
				return nil, fmt.Errorf("two packages have a statement %q", name)
			}
			loaded[name] = sync.OnceValue(func() statement {
				one := one()
				return statement{qualify.Replace(one.text), one.writes}
			})
		}
	}
	return loaded, nil
}

// text returns the text of a statement.
func (db *DB) text(name string) string {
	if db.temporary != nil {
		return db.temporary.get(name).text
	}
	return db.statements.get(name).text
}

// Texts returns the texts of all statements, by their names.
func (db *DB) Texts() map[string]string {
	texts := make(map[string]string, len(db.statements))
	for name, statement := range db.statements {
		texts[name] = statement().text
	}
	return texts
}
