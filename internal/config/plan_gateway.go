package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// GatewayPlan is what makes the keys of a gateway, and where they are remembered.
type GatewayPlan struct {
	// Scope has the expressions; none: all callers share their keys.
	Scope []string `json:"scope,omitempty"`
	// Records names the Redis or database that keeps the records, without a login; empty: the
	// store does.
	Records string `json:"records,omitempty"`
}

// Same reports whether both know the same keys in the same place. Both may be nil.
func (p *GatewayPlan) Same(q *GatewayPlan) bool {
	return p == q || p != nil && q != nil && slices.Equal(p.Scope, q.Scope) &&
		p.Records == q.Records
}

// redisPlace is what of a Redis's URL says where its keys are: neither who logs in, nor whether
// that is encrypted, nor how long a call may take.
func redisPlace(text string) string {
	u, err := url.Parse(text)
	if text == "" || err != nil {
		return ""
	}
	place := strings.Replace(u.Scheme, "rediss", "redis", 1) + "://" + u.Host
	if path := strings.Trim(u.Path, "/"); path != "" && path != "0" {
		place += "/" + path
	}
	for _, name := range []string{"db", "master_name"} {
		if v := u.Query().Get(name); v != "" && v != "0" {
			place += " " + name + "=" + v
		}
	}
	return place
}

// gateway tells a change by which every key of the gateway would be new.
func (c *comparison) gateway() {
	old, now := c.old.Gateway, c.now.Gateway
	if old == nil || now == nil || old.Records == "" && c.use.Records == 0 {
		return
	}
	kept := "the " + count(c.use.Records, "record") + " that the store keeps"
	if old.Records != "" {
		kept = "what " + old.Records + " keeps"
	}
	const new = "every key would count as new, and a repeat would run again"
	if !slices.Equal(old.Scope, now.Scope) && !c.migrate.Gateway.Scope {
		c.add("the gateway has another scope than %s; %s. Restore scope: %s, or write under"+
			" `migrate`: gateway: {scope: changed}", kept, new, scopeText(old.Scope))
	}
	if old.Records != now.Records && !c.migrate.Gateway.Records {
		restore := "records: " + old.Records
		if old.Records == "" {
			restore = "the gateway without `records`"
		}
		c.add("the gateway's records are in another place than %s; %s. Restore %s, or write under"+
			" `migrate`: gateway: {records: changed}", kept, new, restore)
	}
}

// scopeText is a scope as it is written in the file.
func scopeText(parts []string) string {
	if len(parts) == 0 {
		return "none"
	}
	quoted := make([]string, len(parts))
	for i, p := range parts {
		quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(p) + `"`
	}
	if len(parts) == 1 {
		return quoted[0]
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// idleGateway tells what `migrate` says of a gateway that has not changed: the next change would
// pass unseen.
func idleGateway(old, now *GatewayPlan, m GatewayMigration) (list []string) {
	idle := func(field string) {
		list = append(list, fmt.Sprintf("the gateway's %s is what the store was last served with,"+
			" so nothing is done; remove gateway: {%[1]s: changed} from the file, or the next"+
			" change of %[1]s counts as meant, too", field))
	}
	if m.Scope && (old == nil || now == nil || slices.Equal(old.Scope, now.Scope)) {
		idle("scope")
	}
	if m.Records && (old == nil || now == nil || old.Records == now.Records) {
		idle("records")
	}
	return list
}
