package pg

// A Handle is embedded by a type of another package whose DB the packages of this module may use,
// and nobody else: it has no exported method, and its Go package is internal.
type Handle struct{ db *DB }

// NewHandle returns a handle of db.
func NewHandle(db *DB) Handle { return Handle{db} }

func (h Handle) handle() *DB { return h.db }

// A Holder embeds a [Handle].
type Holder interface{ handle() *DB }

// Of returns the DB of a type that embeds a [Handle].
func Of(holder Holder) *DB { return holder.handle() }
