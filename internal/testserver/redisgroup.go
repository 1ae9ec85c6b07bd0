package testserver

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// groupLimit is how long servers may take until they know each other.
const groupLimit = 20 * time.Second

// RedisReplica starts a server that follows another one, and returns when it has its data.
func RedisReplica(t testing.TB, of *RedisServer, options ...string) *RedisServer {
	t.Helper()
	of.Do("CONFIG", "SET", "repl-diskless-sync-delay", "0") // by default it waits for others
	replica := startRedis(t, nil, func(int) []string {
		return append([]string{"replicaof 127.0.0.1 " + strconv.Itoa(of.port)}, options...)
	})
	Until(t, groupLimit, "the replica follows", func() bool {
		return strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up")
	})
	return replica
}

// SentinelName is the name under which sentinels know their master.
const SentinelName = "once"

// SentinelGroup is a master with a replica and three sentinels that watch them.
type SentinelGroup struct {
	Master, Replica *RedisServer // as they were started; a failover swaps them
	Sentinels       []*RedisServer
}

// RedisSentinel starts a group and returns when each sentinel knows the others. A failover takes a
// second or two. Options are those of the master and its replica.
func RedisSentinel(t testing.TB, options ...string) *SentinelGroup {
	t.Helper()
	g := &SentinelGroup{Master: Redis(t, options...)}
	g.Replica = RedisReplica(t, g.Master, options...)
	for range 3 {
		g.Sentinels = append(g.Sentinels, startRedis(t, []string{"--sentinel"},
			func(int) []string {
				return []string{
					fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", SentinelName, g.Master.port),
					"sentinel down-after-milliseconds " + SentinelName + " 500",
					"sentinel failover-timeout " + SentinelName + " 3000",
				}
			}))
	}
	for _, s := range g.Sentinels {
		Until(t, groupLimit, "the sentinels know each other and the replica", func() bool {
			got := strings.Split(s.Do("SENTINEL", "MASTER", SentinelName), "\n")
			return pairs(got, "num-other-sentinels") == "2" && pairs(got, "num-slaves") == "1"
		})
	}
	return g
}

// Addrs are where the sentinels listen.
func (g *SentinelGroup) Addrs() []string { return addrs(g.Sentinels) }

// pairs is the value behind a name in a list of names and values.
func pairs(list []string, name string) string {
	for i := 0; i+1 < len(list); i += 2 {
		if list[i] == name {
			return list[i+1]
		}
	}
	return ""
}

func addrs(servers []*RedisServer) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return all
}

// ClusterGroup is a cluster of three masters without replicas.
type ClusterGroup struct {
	Nodes []*RedisServer
}

// slots is how many hash slots a cluster has.
const slots = 16384

// RedisCluster starts a cluster and returns when each node says that all slots are served, which
// takes two seconds: nodes wait that long before they serve. Options are those of the nodes.
func RedisCluster(t testing.TB, options ...string) *ClusterGroup {
	t.Helper()
	const nodes = 3
	g := &ClusterGroup{}
	for i := range nodes {
		node := startRedis(t, nil, func(int) []string {
			return append([]string{
				"cluster-enabled yes", "cluster-node-timeout 2000",
				"cluster-config-file nodes.conf",
				// By default it is 10,000 above the port, which another server may have.
				"cluster-port " + strconv.Itoa(freePort(t)),
			}, options...)
		})
		node.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		node.Do("CLUSTER", "ADDSLOTSRANGE",
			strconv.Itoa(i*slots/nodes), strconv.Itoa((i+1)*slots/nodes-1))
		g.Nodes = append(g.Nodes, node)
	}
	first := g.Nodes[0]
	bus := strings.Split(first.option("cluster-port"), " ")[0]
	for _, node := range g.Nodes[1:] {
		node.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(first.port), bus)
	}
	for _, node := range g.Nodes {
		Until(t, groupLimit, "the cluster serves all slots", func() bool {
			info := node.Do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	return g
}

// option is the value of a line of the configuration.
func (s *RedisServer) option(name string) string {
	for _, line := range s.conf {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return value
		}
	}
	return ""
}

// Addrs are where the nodes listen.
func (g *ClusterGroup) Addrs() []string { return addrs(g.Nodes) }
