// Package stintsql lets services on database/sql, and on libraries above it such as GORM, bun, ent
// and sqlx, use all verbs of a store in their own transactions. [PgxTx] makes a pgx.Tx from such a
// transaction, for Store.WithTx of the package stint and Task.ReturnIn of the package worker:
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	bound, err := stintsql.PgxTx(ctx, tx)
//	...
//	err = store.WithTx(bound).InsertTasks(ctx, tasks)
//	...
//	err = tx.Commit()
//
// The driver must be pgx. A store also needs a pool of pgx, for everything that it does outside of
// transactions: single verbs, waiting, maintenance. A service on database/sql opens this pool
// first, and its *sql.DB on the same connections:
//
//	pool, err := pgxpool.New(ctx, url)
//	...
//	store, err := stint.New(pool, stint.Options{})
//	...
//	db := stdlib.OpenDBFromPool(pool)
//
// An open transaction then holds a connection of the pool. So make the pool larger than the number
// of transactions that are open at once: other verbs wait while no connection is free.
//
// The argument of PgxTx is
//
//	database/sql  the *sql.Tx
//	sqlx          the *sqlx.Tx
//	bun           tx.Tx of a bun.Tx, which is the *sql.Tx; the bun.Tx itself is refused
//	GORM          tx.Statement.ConnPool of the *gorm.DB of a transaction
//	ent           the *ent.Tx of a client generated with the feature sql/execquery
//
// The directory orm has a tested example of each.
package stintsql
