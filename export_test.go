package stint

// Statements gives tests the texts of sql/ as the store sends them.
func Statements(schema string) (map[string]string, error) { return loadStatements(schema) }

// SchemaVersion is what the store wants of the migrations.
const SchemaVersion = schemaVersion
