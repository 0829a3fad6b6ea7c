package taskstore

// LoadStatements gives tests the texts of sql/ as the store sends them.
func LoadStatements(schema string) (map[string]string, error) { return loadStatements(schema) }
