package testdb

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// URL is where another process finds the database of a pool.
func URL(pool *pgxpool.Pool) string {
	config := pool.Config().ConnConfig
	query := url.Values{
		"host": {config.Host}, "port": {strconv.Itoa(int(config.Port))}, "sslmode": {"prefer"},
	}
	if strings.HasPrefix(config.Host, "/") {
		query.Set("sslmode", "disable")
	}
	address := url.URL{
		Scheme: "postgres", User: url.UserPassword(config.User, config.Password),
		Path: "/" + config.Database, RawQuery: strings.ReplaceAll(query.Encode(), "+", "%20"),
	}
	return address.String()
}
