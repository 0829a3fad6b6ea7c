package taskstore

import "github.com/stint-tasks/stint"

// Texts returns the statements as a store sends them, by their names: those of sql/ and those of
// internal/pg.
func Texts() (map[string]string, error) {
	db, err := open(nil, "stint", stint.Strict)
	if err != nil {
		return nil, err
	}
	return db.Texts(), nil
}
