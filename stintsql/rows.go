package stintsql

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows are the rows of a query, all of which have been read.
type rows struct {
	pgx.Rows // nil: for methods that later versions of pgx add
	conn     *pgx.Conn
	columns  []pgconn.FieldDescription
	ahead    [][][]byte
	current  [][]byte
	tag      pgconn.CommandTag
	err      error
}

// read takes all rows of a query.
func (r *rows) read(found pgx.Rows) error {
	defer found.Close()
	r.columns = slices.Clone(found.FieldDescriptions())
	for found.Next() {
		values := slices.Clone(found.RawValues())
		for i := range values {
			values[i] = slices.Clone(values[i]) // the driver reads the next row into the same bytes
		}
		r.ahead = append(r.ahead, values)
	}
	r.tag = found.CommandTag()
	return found.Err()
}

func (r *rows) Close() { r.ahead, r.current = nil, nil }

func (r *rows) Err() error { return r.err }

func (r *rows) CommandTag() pgconn.CommandTag { return r.tag }

func (r *rows) FieldDescriptions() []pgconn.FieldDescription { return r.columns }

func (r *rows) Next() bool {
	if r.err != nil || len(r.ahead) == 0 {
		r.Close()
		return false
	}
	r.current, r.ahead = r.ahead[0], r.ahead[1:]
	return true
}

func (r *rows) Scan(targets ...any) error {
	if len(targets) == 1 {
		if scanner, ok := targets[0].(pgx.RowScanner); ok {
			return r.fail(scanner.ScanRow(r))
		}
	}
	return r.fail(pgx.ScanRow(r.TypeMap(), r.columns, r.current, targets...))
}

func (r *rows) Values() ([]any, error) {
	values := make([]any, len(r.current))
	targets := make([]any, len(r.current))
	for i := range values {
		targets[i] = &values[i]
	}
	return values, r.Scan(targets...)
}

func (r *rows) RawValues() [][]byte { return r.current }

func (r *rows) Conn() *pgx.Conn { return r.conn }

func (r *rows) TypeMap() *pgtype.Map {
	if r.conn == nil {
		return nil
	}
	return r.conn.TypeMap()
}

// fail ends the rows because of an error, as pgx does.
func (r *rows) fail(err error) error {
	if err != nil {
		r.err = err
		r.Close()
	}
	return err
}

// row is the first of rows.
type row struct{ *rows }

func (r row) Scan(targets ...any) error {
	defer r.Close()
	if !r.Next() {
		if err := r.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	return r.rows.Scan(targets...)
}

// batchResults are the results of a batch, all of which have been read.
type batchResults struct {
	pgx.BatchResults // nil, as in rows
	err              error
}

var errBatchRead = errors.New("the batch is read: give its queries functions for their results")

func (batchResults) Exec() (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errBatchRead
}

func (batchResults) Query() (pgx.Rows, error) { return &rows{err: errBatchRead}, errBatchRead }

func (batchResults) QueryRow() pgx.Row { return row{&rows{err: errBatchRead}} }

func (b batchResults) Close() error { return b.err }

func (batchResults) Tx() pgx.Tx { return nil }
