module github.com/oncekit/once/bench

go 1.26.0

require (
	github.com/ncruces/go-sqlite3 v0.37.0
	github.com/oncekit/once v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/ncruces/go-sqlite3-wasm/v6 v6.5.35401 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
)

replace github.com/oncekit/once => ../
