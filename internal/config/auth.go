package config

import (
	"net/netip"
	"strings"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/webhook"
)

// auth reads how a sender proves who it is. Nil: everybody may send.
func (r *reader) auth(o *object) inbox.Verifier {
	if n := o.get("auth"); n != nil && n.kind == textKind {
		const open = "none"
		if n.text != open {
			r.add(n.at, "auth is a text; expected none, which lets everybody send, or a map such"+
				" as {bearer: \"${env:NAME}\"}")
		}
		o.out.put("auth", lineOut(open))
		return nil
	}
	a := o.optional("auth")
	if a == nil {
		return nil
	}
	if v := r.proofs(a, "auth"); v != nil {
		return inbox.Signed(v)
	}
	return nil
}

// proofs reads a map of ways to prove who the sender is, all of which have to hold. Nil is returned
// for what was told as a problem.
func (r *reader) proofs(o *object, what string) webhook.Verifier {
	var list []webhook.Verifier
	found := false
	for _, p := range []struct {
		field string
		read  func(*object, string) webhook.Verifier
	}{
		{"bearer", r.bearer}, {"basic", r.basic}, {"hmac", r.hmac},
		{"standard_webhooks", r.standard}, {"stripe", r.stripe}, {"github", r.github},
		{"shopify", r.shopify}, {"slack", r.slack}, {"twilio", r.twilio}, {"adyen", r.adyen},
		{"paypal", r.paypal},
		{"client_names", r.clientNames}, {"ips", r.ips}, {"any_of", r.anyOf},
	} {
		if o.get(p.field) == nil {
			found = found || o.has(p.field) // it has no value, which was told
			continue
		}
		found = true
		if v := p.read(o, p.field); v != nil {
			list = append(list, v)
		}
	}
	before := len(r.all)
	o.close(what)
	switch {
	case o.n == nil, len(r.all) > before:
	case !found:
		r.add(o.at(), "%s names no way to prove who the sender is; expected one such as"+
			" {bearer: \"${env:NAME}\"}, or auth: none", what)
	case len(list) == 1:
		return list[0]
	case len(list) > 1:
		return webhook.AllOf(list...)
	}
	return nil
}

// anyOf reads a list of maps, of which one has to hold.
func (r *reader) anyOf(o *object, field string) webhook.Verifier {
	const want = "a list such as [{bearer: \"${env:NAME}\"}, {ips: [192.0.2.0/24]}]"
	n := o.get(field)
	if n.kind == badKind {
		return nil
	}
	if n.kind != listKind {
		r.add(n.at, "any_of is %s; expected %s", n.what(), want)
		return nil
	}
	if len(n.items) == 0 {
		r.add(n.at, "any_of is empty; expected %s", want)
		return nil
	}
	shown := &out{list: true}
	var list []webhook.Verifier
	for _, item := range n.items {
		sub := r.object(item, "a way of any_of")
		shown.items = append(shown.items, sub.out)
		if v := r.proofs(sub, "a way of any_of"); v != nil {
			list = append(list, v)
		}
	}
	o.out.put(field, shown)
	if len(list) == 0 {
		return nil
	}
	return webhook.AnyOf(list...)
}

func (r *reader) bearer(o *object, field string) webhook.Verifier {
	return r.secrets(o, field, "token", func(tokens []string) (webhook.Verifier, error) {
		return verifier(webhook.NewBearer(tokens...))
	})
}

func (r *reader) basic(o *object, field string) webhook.Verifier {
	b := o.object(field)
	defer b.close(field)
	name := b.text("username", "", "the name that the sender shows")
	b.get("password")
	switch {
	case b.n == nil:
		return nil
	case !b.has("username"):
		r.add(b.at(), "basic has no `username`; expected one")
		return nil
	case strings.Contains(name, ":"):
		r.add(b.get("username").at, "username has a colon, which would end it; expected one"+
			" without")
		return nil
	}
	return r.secrets(b, "password", "password", func(list []string) (webhook.Verifier, error) {
		return verifier(webhook.NewBasic(name, list...))
	})
}

// clientNames reads the names in certificates, which the listener has to ask for.
func (r *reader) clientNames(o *object, field string) webhook.Verifier {
	var names []string
	nodes := o.texts(field, "names in the certificates of senders, such as rcs-1.plant.example")
	for _, n := range nodes {
		if n.kind == textKind && n.text != "" {
			names = append(names, n.text)
		}
	}
	if r.c.TLS == nil || r.c.TLS.ClientCA == "" {
		r.add(o.get(field).at, "client_names needs the top level's tls.client_ca: without it no"+
			" certificate is asked for")
		return nil
	}
	if len(names) < len(nodes) || len(names) == 0 {
		return nil
	}
	return r.made(o.get(field).at, field)(verifier(webhook.NewClientNames(names...)))
}

func (r *reader) ips(o *object, field string) webhook.Verifier {
	list := r.networks(o, field)
	if len(list) == 0 {
		return nil
	}
	return r.made(o.get(field).at, field)(verifier(webhook.NewPeers(list...)))
}

// networks reads a list of networks; a single address is a network of one.
func (r *reader) networks(o *object, field string) []netip.Prefix {
	const want = "networks such as 192.0.2.0/24 or 2001:db8::/32, or addresses"
	var list []netip.Prefix
	for _, n := range o.texts(field, want) {
		if n.kind != textKind {
			continue
		}
		p, err := netip.ParsePrefix(n.text)
		if err != nil {
			var a netip.Addr
			if a, err = netip.ParseAddr(n.text); err == nil && a.Zone() == "" {
				a = a.Unmap()
				p = netip.PrefixFrom(a, a.BitLen())
			}
		}
		const mapped = 96 // bits before an IPv4 address that is written as an IPv6 one
		if err == nil && p.Addr().Is4In6() && p.Bits() >= mapped {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
		}
		switch {
		case err != nil || !p.IsValid():
			r.add(n.at, "%s holds %s; expected %s", field, n.show(), want)
		case p != p.Masked():
			r.add(n.at, "%s holds %s, whose address is not the first of its network; expected %s",
				field, n.show(), p.Masked())
		default:
			list = append(list, p)
		}
	}
	return list
}

// proxies reads the networks whose word on a sender's address is believed.
func (r *reader) proxies(o *object) { r.c.Proxies = r.networks(o, "proxies") }

// publicURL reads the base of the URLs under which senders reach a source.
func (r *reader) publicURL(o *object, s *inbox.Source) {
	n := o.textNode("public_url", "the base of the source's URL, such as https://example.org")
	if n == nil {
		return
	}
	o.out.put("public_url", r.urlOut(n))
	if !r.checkURL(n, "public_url", "https", "http") {
		return
	}
	if strings.Contains(n.text, "?") {
		r.add(n.at, "public_url has a query; expected the base, to which the path and the query of"+
			" each request are added")
		return
	}
	s.PublicURL = n.text
}
