package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/gateway"
)

// Lacks returns what a configuration asks for that this program does not have.
func Lacks(cfg *config.Config, handlers map[string]inbox.Handler) []config.Problem {
	var list []config.Problem
	add := func(format string, args ...any) {
		list = append(list, config.Problem{File: cfg.File, Msg: fmt.Sprintf(format, args...)})
	}
	for _, src := range cfg.SourceSettings {
		if h := src.Handler; h != nil && h.HTTP == nil && h.Document == nil &&
			handlers[h.Name] == nil {
			has := ""
			if len(handlers) > 0 {
				has = " (it has " + strings.Join(slices.Sorted(maps.Keys(handlers)), ", ") + ")"
			}
			add("source %s: `to: {handler: %s}` names a handler that this program does not have%s;"+
				" build one with it (see examples/handler), or use `to: {http: URL}`",
				src.Name, h.Name, has)
		} else if h != nil && cfg.Store.InMongoDB() && inbox.Commits(handlers[h.Name]) {
			add("source %s: the handler %s writes in the store's transaction (Commit), and MongoDB"+
				" has none that it could join; use a store in SQLite, or let the handler do its"+
				" work in Work", src.Name, h.Name)
		}
	}
	return list
}

// Unfit returns what of a configuration can't be used as it is: the URL of a Redis or a database, a
// file with keys. It reads files and connects to nothing.
func Unfit(cfg *config.Config) []config.Problem {
	list := unfitDatabases(cfg.Databases)
	if cfg.Store.InPostgreSQL() {
		if _, _, err := readPostgres(cfg.Store.URL); err != nil {
			list = append(list, config.Problem{File: cfg.File, Msg: fmt.Sprintf("store %s can't be"+
				" used: %v; expected a URL such as postgres://USER@HOST:PORT/DATABASE",
				cfg.Store.Name(), err)})
		}
	}
	if cfg.Store.InMongoDB() {
		if err := checkMongo(cfg.Store.URL); err != nil {
			list = append(list, config.Problem{File: cfg.File, Msg: fmt.Sprintf("store %s can't be"+
				" used: %v; expected a URL such as mongodb://HOST:PORT/DATABASE?replicaSet=NAME",
				cfg.Store.Name(), err)})
		}
	}
	g := cfg.Gateway
	if g == nil {
		return list
	}
	switch {
	case g.Records == "":
	case g.InMongoDB():
		if err := checkMongo(g.Records); err != nil {
			list = append(list, g.Wrong("records", "records can't be used: %v; expected a URL such"+
				" as mongodb://HOST:PORT/DATABASE?replicaSet=NAME", err))
		}
	case g.InPostgreSQL():
		if _, _, err := readPostgres(g.Records); err != nil {
			list = append(list, g.Wrong("records", "records can't be used: %v; expected a URL such"+
				" as postgres://USER@HOST:PORT/DATABASE?schema=NAME", err))
		}
	default:
		if _, err := redisClient(g.Records); err != nil {
			list = append(list, g.Wrong("records", "records can't be used: %v; expected a URL such"+
				" as redis://HOST:PORT/0, redis+cluster://HOST:PORT or"+
				" redis+sentinel://HOST:PORT?master_name=NAME", err))
		}
	}
	if g.JWT != nil {
		if err := gateway.CheckKeys(g.JWT.File); err != nil {
			list = append(list, g.Wrong("jwks", "jwks can't be used: %v; expected a file with a"+
				" key set (JWKS)", err))
		}
	}
	return list
}

// Compare compares a configuration with its store, which a server may be using, and changes
// nothing. It returns what of `migrate` has nothing to do, a *[config.Error] for what the start
// would refuse, and [once.ErrNotFound] if there is no store yet.
func Compare(ctx context.Context, cfg *config.Config) (idle []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, mongoOpenLimit)
	defer cancel()
	store, end, err := openReader(ctx, cfg.Store)
	if err != nil {
		return nil, err
	}
	c, err := compare(ctx, store, cfg)
	if err = errors.Join(err, end()); err != nil {
		return nil, err
	}
	if len(c.found) > 0 {
		return nil, &config.Error{Problems: c.found}
	}
	return c.idle, nil
}
